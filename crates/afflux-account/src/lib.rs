//! The exact account of what fits on which machine while placements are tried.
//!
//! # Problem
//! Machines have a free amount of each of R resources, and may have devices of which a task uses
//! shares, and disks of which it uses bandwidth. Tasks come in classes; all tasks of a class ask for the same. How many tasks of a class
//! fit on a machine, beside everything that is there?
//!
//! # Parts
//! The account is composed of parts, each of which answers for itself: [`Resources`] are amounts
//! that add up; [`Devices`] and [`Disks`] are tracked one by one, because shares of different
//! devices, or bandwidth of different disks, never add up; and [`Domains`] count tasks by zone, host or another topology key, for the constraints
//! between tasks. A task fits where every part admits it, and [`Account::refusals`] names the parts
//! that do not. A further kind of room is one part more.
//!
//! # Invariants
//! Whatever is taken can be released again, and [`Account::rollback`] restores the free amounts,
//! devices, disks and counts exactly as they were at [`Account::mark`]. Only requested resources are looked
//! at: a machine that is overcommitted in another resource still takes the task.
//!
//! # Cost
//! `take`, `release` and `fits` cost the resources that the class asks for, not those that exist,
//! and one lookup for each rule and counter of the class, however many domains there are.

mod account;
mod devices;
mod disk_search;
mod disks;
mod domain_counters;
mod domains;
mod placed_rules;
mod resources;

pub use account::{Account, Class, Part, Unit};
pub use devices::{DeviceRequest, Devices, room_on_devices};
pub use disks::{Bandwidth, Disk, DiskRequest, Disks};
pub use domain_counters::Topology;
pub use domains::{Domains, Rule};
pub use resources::{Resources, UNLIMITED};
