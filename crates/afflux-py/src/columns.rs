//! Arguments that are columns (contiguous NumPy arrays of one dimension and the right type) or
//! tables (two dimensions).

use numpy::ndarray::Dimension;
use numpy::{Element, Ix1, Ix2, PyArray, PyArray1, PyArrayDescrMethods, PyReadonlyArray};
use numpy::{PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::errors::FlowError;

/// An argument that is read in place.
pub struct Column<'py, T: Element, D: Dimension = Ix1> {
    name: String,
    array: PyReadonlyArray<'py, T, D>,
}

/// A table: rows of equal length.
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
        // An array in Fortran order is contiguous too, but its values are in another order.
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
    /// The values; their number must be that of another column.
    pub fn values_of_length(&self, other: &str, expected: usize) -> PyResult<&[T]> {
        let values = self.values()?;
        match values.len() == expected {
            true => Ok(values),
            false => Err(FlowError::new_err(format!(
                "{} has {} values, but {other} has {expected}: expected the same number",
                self.name,
                values.len()
            ))),
        }
    }
}

impl<T: Element> Table<'_, T> {
    /// The rows; their number must be that of another column.
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
                "{} has {rows} rows, but {other} has {expected} values: expected the same number",
                self.name
            ))),
        }
    }
}

impl Column<'_, i32> {
    /// The values as ids of nodes or arcs; none may be negative.
    pub fn ids(&self) -> PyResult<impl ExactSizeIterator<Item = u32> + Clone> {
        let values = self.values()?;
        // Computing the minimum is faster than searching for the first negative value.
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

/// Ids of nodes or arcs as a NumPy array; there are at most 2^31.
pub fn id_array(py: Python<'_>, ids: Vec<u32>) -> Bound<'_, PyArray1<i32>> {
    PyArray1::from_iter(py, ids.into_iter().map(|id| id as i32))
}
