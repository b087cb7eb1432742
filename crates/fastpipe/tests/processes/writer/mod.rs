//! Writers with other processes, forked children and changed limits.

mod auto;
mod death;
mod descriptor;
mod disk_full;
mod fork;
mod interruptions;
mod leaks;
mod memory;
mod neighbours;
mod outputs;
mod refusals;
