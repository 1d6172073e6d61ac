//! Times on networks of the kind that a scheduling cycle builds: classes of tasks, machines with
//! slots of rising cost, waiting. `cargo bench -p afflux-flow`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use afflux_flow::{FlowError, Problem, solve};

/// A small generator of its own (splitmix64), so that the networks never change.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> i64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % limit) as i64
    }
}

#[derive(Default)]
struct Columns {
    supply: Vec<i64>,
    tail: Vec<i32>,
    head: Vec<i32>,
    lower: Vec<i64>,
    capacity: Vec<i64>,
    cost: Vec<i64>,
}

impl Columns {
    fn arc(&mut self, tail: usize, head: usize, capacity: i64, cost: i64) {
        self.tail.push(tail as i32);
        self.head.push(head as i32);
        self.lower.push(0);
        self.capacity.push(capacity);
        self.cost.push(cost);
    }

    fn problem(&self) -> Result<Problem<'_>, FlowError> {
        Problem::new(
            &self.supply,
            &self.tail,
            &self.head,
            &self.lower,
            &self.capacity,
            &self.cost,
        )
    }
}

fn network(classes: usize, machines: usize, units: usize) -> Columns {
    let mut random = Random(1);
    let sink = classes + machines;
    let mut columns = Columns {
        supply: vec![0; sink + 1],
        ..Columns::default()
    };
    for _ in 0..units {
        columns.supply[random.below(classes as u64) as usize] += 1;
    }
    columns.supply[sink] = -(units as i64);
    for class in 0..classes {
        for machine in 0..machines {
            let capacity = 1 + random.below(10);
            columns.arc(class, classes + machine, capacity, random.below(2001));
        }
    }
    for machine in 0..machines {
        let slope = 5 + random.below(55);
        for slot in 0..10 + random.below(11) {
            columns.arc(classes + machine, sink, 1, slot * slope);
        }
    }
    for class in 0..classes {
        columns.arc(class, sink, columns.supply[class], 2_560_000);
    }
    columns
}

fn main() -> Result<(), FlowError> {
    for (classes, machines, units, rounds) in [
        (1, 1_500, 1, 200),
        (1, 1_500, 20, 200),
        (20, 300, 2_000, 50),
        (50, 1_000, 10_000, 20),
        (50, 1_000, 20_000, 20),
        (100, 12_500, 10_000, 3),
        (100, 12_500, 150_000, 3),
        (100, 12_500, 220_000, 3),
    ] {
        let columns = network(classes, machines, units);
        let mut best = Duration::MAX;
        let mut cost = 0;
        for _ in 0..rounds {
            let started = Instant::now();
            cost = black_box(solve(&columns.problem()?)?).cost;
            best = best.min(started.elapsed());
        }
        println!(
            "{classes:>4} classes {machines:>6} machines {units:>7} units: {:>9.3} ms (cost {cost})",
            best.as_secs_f64() * 1e3
        );
    }
    Ok(())
}
