//! Arguments that are columns: NumPy arrays of one dimension, of the right type, without gaps. And
//! tables, which have two dimensions.

use numpy::ndarray::Dimension;
use numpy::{Element, Ix1, Ix2, PyArray, PyArray1, PyArrayDescrMethods, PyReadonlyArray};
use numpy::{PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::errors::FlowError;

/// One argument, read in place.
pub struct Column<'py, T: Element, D: Dimension = Ix1> {
    name: String,
    array: PyReadonlyArray<'py, T, D>,
}

/// As many values for each of many.
pub type Table<'py, T> = Column<'py, T, Ix2>;

impl<'py, T: Element, D: Dimension> Column<'py, T, D> {
    pub fn new(name: impl Into<String>, value: &Bound<'py, PyAny>) -> PyResult<Self> {
        let name = name.into();
        let py = value.py();
        let expected = numpy::dtype::<T>(py);
        let Ok(untyped) = value.cast::<PyUntypedArray>() else {
            return Err(PyTypeError::new_err(format!(
                "{name} is a {}, expected a NumPy array of {expected}",
                value.get_type().name()?
            )));
        };
        let dimensions = D::NDIM.unwrap_or_default();
        if untyped.ndim() != dimensions || !untyped.dtype().is_equiv_to(&expected) {
            return Err(PyTypeError::new_err(format!(
                "{name} is an array of {} with {} dimensions, expected {expected} with {dimensions}",
                untyped.dtype(),
                untyped.ndim()
            )));
        }
        let array = value.cast::<PyArray<T, D>>()?.try_readonly()?;
        Ok(Self { name, array })
    }

    pub fn values(&self) -> PyResult<&[T]> {
        // A table by columns has no gaps either, but its values are in another order.
        let slice = self.array.as_slice().ok();
        slice.filter(|_| self.array.is_c_contiguous()).ok_or_else(|| {
            PyTypeError::new_err(format!(
                "{} is not contiguous, expected an array without gaps (numpy.ascontiguousarray)",
                self.name
            ))
        })
    }
}

impl<T: Element> Column<'_, T> {
    /// The values, as many as another column has.
    pub fn as_many(&self, other: &str, expected: usize) -> PyResult<&[T]> {
        let values = self.values()?;
        match values.len() == expected {
            true => Ok(values),
            false => Err(FlowError::new_err(format!(
                "{} has {} values, but {other} has {expected}: as many are expected",
                self.name,
                values.len()
            ))),
        }
    }
}

impl<T: Element> Table<'_, T> {
    /// The values of each of so many rows.
    pub fn rows(
        &self,
        other: &str,
        expected: usize,
    ) -> PyResult<impl ExactSizeIterator<Item = &[T]> + Clone> {
        let values = self.values()?;
        let [rows, length] = [0, 1].map(|axis| self.array.shape()[axis]);
        match rows == expected {
            true => Ok((0..rows).map(move |row| &values[row * length..][..length])),
            false => Err(FlowError::new_err(format!(
                "{} has {rows} rows, but {other} has {expected} values: as many are expected",
                self.name
            ))),
        }
    }
}

impl Column<'_, i32> {
    /// The values as numbers of nodes or arcs, of which none is negative.
    pub fn ids(&self) -> PyResult<impl ExactSizeIterator<Item = u32> + Clone> {
        let values = self.values()?;
        // Looking for the least is faster than looking for the first that is negative.
        if values.iter().copied().min().is_some_and(|least| least < 0) {
            let position = values.iter().position(|&id| id < 0).unwrap_or_default();
            return Err(FlowError::new_err(format!(
                "{}[{position}] is {}, expected 0 or more",
                self.name, values[position]
            )));
        }
        Ok(values.iter().map(|&id| id as u32))
    }
}

/// Numbers of nodes or arcs as Python wants them; the crate has at most 2^31.
pub fn id_array(py: Python<'_>, ids: Vec<u32>) -> Bound<'_, PyArray1<i32>> {
    PyArray1::from_iter(py, ids.into_iter().map(|id| id as i32))
}
