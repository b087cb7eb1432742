use super::*;
use pipespeed_testing::{names_in, says};
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};

use rustix::fs::{IFlags, XattrFlags, ioctl_getflags, ioctl_setflags};

fn save(path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
    Destination::open(path.as_ref())?.save(bytes)
}

fn error(path: impl AsRef<Path>) -> String {
    Destination::open(path.as_ref()).unwrap_err().to_string()
}

#[test]
fn new_file_has_bytes_and_no_temporary_file_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let new = Destination::open(&dir.path().join("a.json")).unwrap();
    assert!(new.is_regular() && names_in(dir.path()).is_empty());
    new.save(b"one").unwrap();
    new.save(b"two").unwrap();
    assert_eq!(fs::read(dir.path().join("a.json")).unwrap(), b"two");
    assert_eq!(names_in(dir.path()), ["a.json"]);
}

#[test]
fn an_existing_file_keeps_its_permissions() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.json");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let existing = Destination::open(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    existing.save(b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
}

/// An access control list (acl(5), linux/posix_acl_xattr.h) by which one more user may write.
fn list() -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in [
        (1_u16, 6_u16, NOBODY),
        (2, 6, 1234),
        (4, 4, NOBODY),
        (16, 6, NOBODY),
        (32, 4, NOBODY),
    ] {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(rights.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

#[test]
fn a_replaced_file_has_the_attributes_of_the_old_one_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("listed"), "old").unwrap();
    fs::write(path("plain"), "old").unwrap();
    fs::set_permissions(path("plain"), Permissions::from_mode(0o640)).unwrap();
    let set = |path: &Path, name: &str, value: &[u8]| {
        rustix::fs::setxattr(path, name, value, XattrFlags::empty())
    };
    let prepared = set(&path("listed"), "user.note", b"mine")
        .and_then(|()| set(&path("listed"), "system.posix_acl_access", &list()))
        // New files get it.
        .and_then(|()| set(dir.path(), "system.posix_acl_default", &list()));
    if let Err(errno) = prepared {
        return pipespeed_testing::skip(format_args!("no attributes in {dir:?}: {errno}"));
    }
    for (name, expected) in [
        (
            "listed",
            &[
                ("user.note", b"mine".to_vec()),
                ("system.posix_acl_access", list()),
            ][..],
        ),
        ("plain", &[]),
    ] {
        let before = fs::metadata(path(name)).unwrap();
        save(path(name), b"new").unwrap();
        let after = fs::metadata(path(name)).unwrap();
        assert_ne!(before.ino(), after.ino(), "it is replaced");
        assert_eq!(before.mode(), after.mode());
        let mut names = vec![0; 1024];
        let len = rustix::fs::listxattr(path(name), &mut names[..]).unwrap();
        // Security modules may have added one.
        let names = String::from_utf8(names[..len].to_vec()).unwrap();
        let names = names
            .split_terminator('\0')
            .filter(|name| !name.starts_with("security."));
        assert_eq!(names.count(), expected.len());
        for (attribute, value) in expected {
            let mut found = vec![0; 1024];
            let len = rustix::fs::getxattr(path(name), *attribute, &mut found[..]).unwrap();
            assert_eq!(&found[..len], value, "{attribute}");
        }
    }
}

#[test]
fn a_file_with_flags_of_its_own_keeps_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    fs::write(&path, "old").unwrap();
    let set = ioctl_setflags(fs::File::open(&path).unwrap(), IFlags::NODUMP);
    if let Err(errno) = set {
        return pipespeed_testing::skip(format_args!("no flags in {dir:?}: {errno}"));
    }
    let before = fs::metadata(&path).unwrap().ino();
    save(&path, b"new").unwrap();
    let flags = ioctl_getflags(fs::File::open(&path).unwrap()).unwrap();
    assert!(flags.contains(IFlags::NODUMP));
    assert_eq!(fs::metadata(&path).unwrap().ino(), before);
    assert_eq!(fs::read(&path).unwrap(), b"new");
}

#[test]
fn link_stays_a_link_whether_or_not_its_file_exists() {
    let dir = tempfile::tempdir().unwrap();
    let (file, link) = (dir.path().join("file"), dir.path().join("link"));
    symlink("file", &link).unwrap();
    for bytes in [b"one", b"two"] {
        save(&link, bytes).unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&file).unwrap(), bytes);
    }
    assert_eq!(names_in(dir.path()), ["file", "link"]);
}

#[test]
fn one_file_is_recognised_under_several_names() {
    let dir = tempfile::tempdir().unwrap();
    symlink("missing", dir.path().join("link")).unwrap();
    let open = |name: &str| Destination::open(&dir.path().join(name)).unwrap();
    assert!(open("link").is_same(&open("./missing")));
    assert!(!open("link").is_same(&open("other")));
    let [dash, device] = ["-", "/dev/stdout"].map(|name| Destination::open(Path::new(name)));
    assert!(dash.unwrap().is_same(&device.unwrap()));
}

#[test]
fn a_file_is_replaced_only_if_nobody_would_notice() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    for name in ["own", "linked"] {
        fs::write(path(name), "longer than new").unwrap();
    }
    fs::hard_link(path("linked"), path("other")).unwrap();
    let inode = |name: &str| fs::metadata(path(name)).unwrap().ino();
    let before = [inode("own"), inode("linked")];
    for name in ["own", "linked"] {
        save(path(name), b"new").unwrap();
        assert_eq!(fs::read(path(name)).unwrap(), b"new");
    }
    assert_ne!(inode("own"), before[0]);
    assert_eq!([inode("linked"), inode("other")], [before[1]; 2]);
}

#[test]
fn moved_directory_is_followed_and_a_new_one_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let (here, there) = (dir.path().join("here"), dir.path().join("there"));
    fs::create_dir(&here).unwrap();
    let file = Destination::open(&here.join("a")).unwrap();
    fs::rename(&here, &there).unwrap();
    file.save(b"one").unwrap();
    assert_eq!(fs::read(there.join("a")).unwrap(), b"one");
    assert_eq!(file.saved_path(), there.canonicalize().unwrap().join("a"));
    fs::remove_dir_all(&there).unwrap();
    fs::create_dir(&here).unwrap();
    file.save(b"two").unwrap();
    assert_eq!(fs::read(here.join("a")).unwrap(), b"two");
    assert_eq!(file.saved_path(), here.join("a"));
}

#[test]
fn what_a_file_has_become_meanwhile_is_looked_at_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let mode = |name: &str| fs::metadata(path(name)).unwrap().mode();
    fs::write(path("usual"), "").unwrap();
    for is_old in [false, true] {
        if is_old {
            fs::write(path("a"), "old").unwrap();
        }
        let file = Destination::open(&path("a")).unwrap();
        let _ = fs::remove_file(path("a"));
        let _ = fs::remove_file(path("target"));
        symlink("target", path("a")).unwrap();
        file.save(b"one").unwrap();
        assert!(path("a").is_symlink());
        assert_eq!(fs::read(path("target")).unwrap(), b"one");
        assert_eq!(mode("target"), mode("usual"));
        assert_eq!(file.saved_path(), path("a"));
        fs::remove_file(path("a")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path("a"), Mode::RWXU).unwrap();
        let error = file.save(b"two").unwrap_err().to_string();
        assert!(error.contains("no longer a regular file"), "{error}");
        fs::remove_file(path("a")).unwrap();
    }
    assert_eq!(names_in(dir.path()), ["target", "usual"]);
}

#[test]
fn parts_follow_each_other_after_first_has_replaced_old_contents() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    for links in [false, true] {
        fs::write(&path, "old").unwrap();
        if links {
            fs::hard_link(&path, dir.path().join("b")).unwrap();
        }
        let mut file = Destination::open(&path).unwrap();
        for (part, so_far) in [("1\n", "1\n"), ("2\n", "1\n2\n")] {
            file.append(part.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), so_far);
        }
    }
}

#[test]
fn parts_go_on_in_a_new_file_or_the_one_that_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let mut file = Destination::open(&path).unwrap();
    let read = || fs::read_to_string(&path).unwrap();
    file.append(b"1\n").unwrap();
    assert!(!file.is_loss_said);
    fs::remove_file(&path).unwrap();
    file.append(b"2\n").unwrap();
    assert!(file.is_loss_said);
    file.append(b"3\n").unwrap();
    assert_eq!(read(), "2\n3\n");
    fs::rename(&path, dir.path().join("rotated")).unwrap();
    fs::write(&path, "theirs\n").unwrap();
    file.append(b"4\n").unwrap();
    assert_eq!(read(), "theirs\n4\n");
    // There can be none.
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    file.append(b"5\n").unwrap();
    assert!(file.is_failure_said && file.has_lost());
    fs::remove_dir(&path).unwrap();
    file.append(b"6\n").unwrap();
    assert!(!file.is_failure_said);
    assert_eq!(read(), "6\n");
}

#[test]
fn socket_in_place_of_a_regular_file_is_refused_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let file = Destination::open(&path).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let error = file.save(b"one").unwrap_err().to_string();
    assert!(error.contains("no longer a regular file"), "{error}");
}

#[test]
fn a_fifo_needs_a_reader_which_stays_connected() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RWXU).unwrap();
    let text = error(&path);
    assert!(text.contains("start its reader first"), "{text}");
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let mut reader = File::from(rustix::fs::open(&path, flags, Mode::empty()).unwrap());
    let fifo = Destination::open(&path).unwrap();
    assert!(!fifo.is_regular());
    let mut buffer = [0; 9];
    // Not the end of the stream, which would be Ok(0).
    let early = io::Read::read(&mut reader, &mut buffer).unwrap_err();
    assert_eq!(early.kind(), io::ErrorKind::WouldBlock);
    fifo.save(b"bytes").unwrap();
    assert_eq!(io::Read::read(&mut reader, &mut buffer).unwrap(), 5);
}

#[test]
fn an_unwritable_path_is_rejected_beforehand() {
    let directory = tempfile::tempdir().unwrap();
    let there = directory.path();
    symlink("no/such", there.join("dangling")).unwrap();
    symlink("circle", there.join("circle")).unwrap();
    fs::write(there.join("file"), "").unwrap();
    for (bad, reason) in [
        (".", "is a directory"),
        ("new/", "is a directory"),
        ("no/such", "No such file"),
        ("dangling", "No such file"),
        ("circle", "symbolic links"),
        ("file/new", "Not a directory"),
        (&"n".repeat(256), "too long"),
    ] {
        let text = error(there.join(bad));
        assert!(text.contains(bad) && text.contains(reason), "{text}");
    }
    assert_eq!(names_in(there), ["circle", "dangling", "file"]);
    let error = error("/dev/fd/999");
    says(&error, &["/dev/fd/999: descriptor 999 is not open"]);
}

#[test]
fn files_of_two_runs_with_one_default_name_are_both_kept() {
    let dir = tempfile::tempdir().unwrap();
    let run = || {
        let stem = Arc::new(NewStem::new(dir.path(), "run".to_owned()));
        ["json", "csv"].map(|extension| Destination::later(&stem, extension))
    };
    let ([json, csv], [other_json, other_csv]) = (run(), run());
    for (file, bytes) in [
        (&json, "1"),
        (&other_json, "2"),
        (&other_csv, "2"),
        (&csv, "1"),
        (&json, "1 again"),
    ] {
        file.save(bytes.as_bytes()).unwrap();
    }
    assert_eq!(
        names_in(dir.path()),
        ["run-2.csv", "run-2.json", "run.csv", "run.json"]
    );
    for (file, name, bytes) in [
        (json, "run.json", "1 again"),
        (csv, "run.csv", "1"),
        (other_json, "run-2.json", "2"),
        (other_csv, "run-2.csv", "2"),
    ] {
        assert_eq!(file.saved_path(), dir.path().join(name));
        assert_eq!(fs::read_to_string(dir.path().join(name)).unwrap(), bytes);
    }
}
