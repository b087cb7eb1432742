# The commands of CONTRIBUTING.md and RELEASE.md by name: `just test`.

# lists the commands
default:
    @just --list

# builds the command and the published programs
build:
    cargo build --release --locked

# runs all tests
test *ARGS:
    cargo test --locked {{ARGS}}

# what a change must pass
ci:
    .ci/run

# accepts changed wording; review the difference
accept:
    INSTA_UPDATE=always cargo test --locked -p pipespeed --test command
    git diff --stat

# lists knots of modules, shared names, long functions and files
house:
    python3 ci/house -v

# the accuracy of doctor: hangs, bottlenecks, healthy
doctor WHICH="bottlenecks":
    cargo bench --locked -p pipespeed --bench doctor -- {{WHICH}}

# fuzzes a target of the library for some seconds (nightly Rust, cargo-fuzz)
fuzz TARGET SECONDS="1200":
    cd crates/fastpipe && cargo +nightly fuzz run {{TARGET}} -- -max_total_time={{SECONDS}}

# measures all figures of the docs anew (three hours; MINUTES: a piece of it)
figures MINUTES="200":
    docs/remake --minutes {{MINUTES}}

# the tests on three kernels, in qemu
kernels:
    ci/kernels prepare
    for kernel in 6.1 6.12 7.2; do ci/kernels run $kernel; done
    ci/kernels summary

# makes and proves all packages (root)
packages DIRECTORY:
    packaging/build {{DIRECTORY}}
    packaging/test {{DIRECTORY}}
