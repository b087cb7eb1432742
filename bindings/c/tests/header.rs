//! The header is made of the sources: `FASTPIPE_HEADER=write cargo test --test header` writes it.

use std::path::Path;

#[test]
fn the_header_is_that_of_the_sources() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_root_or_default(here);
    let mut builder = cbindgen::Builder::new().with_config(config);
    // In the order of the documentation.
    for source in ["error", "writer", "reader", "copy", "ring"] {
        builder = builder.with_src(here.join(format!("src/{source}.rs")));
    }
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let path = here.join("include/fastpipe.h");
    if std::env::var_os("FASTPIPE_HEADER").is_some_and(|what| what == "write") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(made == kept, "write it anew, and look at what changed");
}
