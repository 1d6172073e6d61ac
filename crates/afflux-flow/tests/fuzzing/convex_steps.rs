//! Steps with convex arcs.

use afflux_flow::{ArcId, FlowError, NewConvexArc};

use super::convex_model::Convex;
use super::{Bytes, NetworkAndModel};

/// The maximum number of convex arcs of a series, and of units per arc.
const MAX_CONVEX_ARCS: usize = 20;
const MAX_UNITS: usize = 6;

impl NetworkAndModel {
    pub fn step_convex(&mut self, byte: u8, bytes: &mut Bytes<'_>) {
        match byte % 4 {
            0 if self.convex.len() < MAX_CONVEX_ARCS => self.add_convex(bytes),
            1 => {
                if let Some(arc) = self.pick_convex(bytes) {
                    assert_eq!(self.network.remove_arcs(&[arc]), Ok(()));
                    self.convex.remove(&arc);
                    let again = self.network.flow(arc);
                    assert_eq!(again, Err(FlowError::UnknownArc { arc }));
                }
            }
            2 => self.set_convex(bytes),
            _ => {
                if let Some(arc) = self.pick_convex(bytes) {
                    let capacity = bytes.pick(MAX_UNITS + 1) as i64;
                    let lower = bytes.pick(3) as i64;
                    let own = self.convex.get_mut(&arc).expect("it was picked");
                    let changed = [(arc, lower, capacity)].into_iter();
                    match self.network.set_all_bounds(changed) {
                        Ok(()) => (own.lower, own.capacity) = (lower, capacity),
                        Err(FlowError::LowerAboveCapacity { .. }) => assert!(lower > capacity),
                        Err(error) => {
                            assert!(matches!(error, FlowError::ConvexCapacity { .. }));
                            assert!(capacity as usize > own.costs.len());
                        }
                    }
                }
            }
        }
    }

    fn pick_convex(&self, bytes: &mut Bytes<'_>) -> Option<ArcId> {
        let pick = bytes.pick(self.convex.len());
        self.convex.keys().nth(pick).copied()
    }

    /// A convex arc with this number of costs; about one in a hundred has falling costs.
    fn draw_convex(&self, bytes: &mut Bytes<'_>, length: usize) -> Convex {
        let mut costs: Vec<i64> = (0..length).map(|_| self.cost(bytes)).collect();
        if bytes.next() > 2 {
            costs.sort_unstable();
        }
        let capacity = bytes.pick(length + 1) as i64;
        let lower = if bytes.next() < 40 { capacity / 2 } else { 0 };
        Convex {
            tail: 0,
            head: 0,
            lower,
            capacity,
            costs,
        }
    }

    fn add_convex(&mut self, bytes: &mut Bytes<'_>) {
        let (Some(tail), Some(head)) = (self.pick_node(bytes), self.pick_node(bytes)) else {
            return;
        };
        let length = bytes.pick(MAX_UNITS) + 1;
        let drawn = self.draw_convex(bytes, length);
        let arc = Convex {
            tail,
            head,
            ..drawn
        };
        let new = NewConvexArc {
            tail,
            head,
            terms: arc.terms(),
        };
        match self.network.add_convex_arcs([new].into_iter()) {
            Ok(ids) => assert!(self.convex.insert(ids[0], arc).is_none()),
            Err(FlowError::ConvexLoop { .. }) => assert_eq!(tail, head),
            Err(error) => assert!(explains(&error, &arc), "{error}"),
        }
    }

    /// Sets bounds and costs of some convex arcs in one call; an arc may occur twice.
    fn set_convex(&mut self, bytes: &mut Bytes<'_>) {
        let changes: Vec<(ArcId, Convex)> = (0..=bytes.pick(4))
            .filter_map(|_| {
                let arc = self.pick_convex(bytes)?;
                let own = &self.convex[&arc];
                let (tail, head) = (own.tail, own.head);
                let drawn = self.draw_convex(bytes, own.costs.len());
                let new = Convex {
                    tail,
                    head,
                    ..drawn
                };
                Some((arc, new))
            })
            .collect();
        let terms = changes.iter().map(|(arc, new)| (*arc, new.terms()));
        match self.network.set_convex(terms) {
            Ok(()) => self.convex.extend(changes),
            Err(error) => {
                let is_explained = changes.iter().any(|(_, new)| explains(&error, new));
                assert!(is_explained, "{error}");
            }
        }
    }
}

/// Whether a convex arc explains this error.
fn explains(error: &FlowError, arc: &Convex) -> bool {
    match error {
        FlowError::ConvexFalls { .. } => !arc.costs.is_sorted(),
        FlowError::CostOverflow { .. } => true,
        _ => false,
    }
}
