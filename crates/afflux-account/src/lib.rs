//! The exact account of what fits on which machine while placements are tried.
