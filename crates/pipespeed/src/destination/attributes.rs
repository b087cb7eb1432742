//! Extended attributes of a file, among them its access control list (xattr(7), acl(5)).

use std::fs::File;

use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr};
use rustix::io::{Errno, Result};

/// Names, and a value, are at most this long in all (XATTR_LIST_MAX, XATTR_SIZE_MAX).
const MAX_BYTES: usize = 64 << 10;

/// Gives a file the attributes of another one, and no others: it may have inherited a list by
/// which more users can read it.
///
/// # Errors
/// Those of reading and setting attributes.
pub(super) fn copy_attributes(from: &File, to: &File) -> Result<()> {
    let wanted = names(from)?;
    for name in names(to)?.iter().filter(|name| !wanted.contains(name)) {
        fremovexattr(to, &name[..])?;
    }
    for name in &wanted {
        let value = value(from, name)?;
        // The system may have set it already, and let nobody else do so.
        if self::value(to, name).as_ref() != Ok(&value) {
            fsetxattr(to, &name[..], &value, XattrFlags::empty())?;
        }
    }
    Ok(())
}

/// The names of all attributes; none where the file system has no attributes.
fn names(file: &File) -> Result<Vec<Vec<u8>>> {
    let mut list = vec![0; MAX_BYTES];
    let len = match flistxattr(file, &mut list[..]) {
        Err(Errno::OPNOTSUPP) => 0,
        listed => listed?,
    };
    let names = list[..len].split(|byte| *byte == 0);
    Ok(names
        .filter(|name| !name.is_empty())
        .map(<[u8]>::to_vec)
        .collect())
}

fn value(file: &File, name: &[u8]) -> Result<Vec<u8>> {
    let mut value = vec![0; MAX_BYTES];
    let len = fgetxattr(file, name, &mut value[..])?;
    value.truncate(len);
    Ok(value)
}
