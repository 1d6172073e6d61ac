//! The disks of an account, from columns of Python.

use afflux_account::{Class, Disk, DiskRequest, Disks};
use numpy::{PyReadonlyArray2, PyReadonlyArray3};
use pyo3::prelude::*;

use crate::packing::inconsistent;

/// By volume, and by number of a model, what it takes of such a disk: read, write, total; and
/// whether it is stated.
pub(crate) type DiskArgument = (Vec<Vec<Option<(i64, i64, i64)>>>, bool);

/// By machine and disk what is left of it, and the number of its model, -1 for no disk.
pub(crate) type DiskTable<'py> = (PyReadonlyArray3<'py, i64>, PyReadonlyArray2<'py, i32>);

/// Amounts beyond this are cut to it, so that sums of them stay within 64 bits.
const MAX_BANDWIDTH: i64 = 1 << 52;

/// The part of the account that tracks disks; the classes get their requests.
pub(crate) fn disks_of(
    (left, model): &DiskTable<'_>,
    requests: Vec<Option<DiskArgument>>,
    classes: &mut [Class],
    machines: usize,
) -> PyResult<Disks> {
    let (left, model) = (left.as_array(), model.as_array());
    let (rows, disks) = model.dim();
    if left.dim() != (rows, disks, 3) || rows != machines || requests.len() != classes.len() {
        return Err(inconsistent());
    }
    for (class, request) in classes.iter_mut().zip(requests) {
        class.disks = request.map(request_of).transpose()?;
    }
    let on = |machine: usize| {
        let numbers = (0..disks).filter_map(|disk| {
            let model = u32::try_from(model[[machine, disk]]).ok()?;
            let left = [0, 1, 2].map(|kind| cut(left[[machine, disk, kind]]));
            Some(Disk { model, left })
        });
        numbers.collect()
    };
    Ok(Disks::new((0..machines).map(on).collect()))
}

fn request_of((volumes, is_stated): DiskArgument) -> PyResult<DiskRequest> {
    let mut amounts = volumes.iter().flatten().flatten();
    if amounts.any(|&(read, write, total)| read < 0 || write < 0 || total < 0) {
        return Err(inconsistent());
    }
    let taken = |&(read, write, total): &(i64, i64, i64)| [read, write, total].map(cut);
    let by_model = |volume: &Vec<Option<(i64, i64, i64)>>| {
        let each = volume.iter().map(|amounts| amounts.as_ref().map(taken));
        each.collect()
    };
    let volumes = volumes.iter().map(by_model).collect();
    Ok(DiskRequest::new(volumes, is_stated))
}

fn cut(amount: i64) -> i64 {
    amount.clamp(-MAX_BANDWIDTH, MAX_BANDWIDTH)
}
