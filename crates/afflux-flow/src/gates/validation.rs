//! Checks that gates are well formed.

use std::collections::HashMap;

use crate::error::FlowError;
use crate::gates::Gate;
use crate::network::Network;

/// Returns the first error in the definition of gates.
pub(super) fn check(network: &Network, gates: &[Gate]) -> Result<(), FlowError> {
    let mut gate_of = HashMap::new();
    for (number, gate) in gates.iter().enumerate() {
        if gate.waiting_cost < 0 {
            return Err(FlowError::NegativeWaitingCost {
                gate: number,
                cost: gate.waiting_cost,
            });
        }
        for &(arc, count) in &gate.members {
            let terms = network.terms(arc)?;
            if let Some(other) = gate_of.insert(arc, number) {
                return Err(FlowError::ArcOfTwoGates {
                    arc,
                    gates: [other, number],
                });
            }
            let ends = network.problem().arc(arc as usize);
            if ends.tail == ends.head {
                return Err(FlowError::GateLoop {
                    gate: number,
                    arc,
                    node: ends.tail,
                });
            }
            if count <= 0 || count > terms.capacity {
                return Err(FlowError::GateCount {
                    gate: number,
                    arc,
                    count,
                    capacity: terms.capacity,
                });
            }
            if terms.lower != 0 {
                return Err(FlowError::GateLowerBound {
                    gate: number,
                    arc,
                    lower: terms.lower,
                });
            }
        }
    }
    Ok(())
}
