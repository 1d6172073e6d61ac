//! Solve times on networks like those of a scheduling cycle: classes of tasks, machines with slots
//! of rising cost, waiting. `cargo bench -p afflux-flow`.

#[path = "../tests/columns/mod.rs"]
mod columns;
mod random;

use std::hint::black_box;
use std::time::{Duration, Instant};

use afflux_flow::{FlowError, solve};
use columns::Columns;
use random::Random;

fn network(classes: usize, machines: usize, units: usize) -> Columns {
    let mut random = Random(1);
    let sink = classes + machines;
    let mut supply = vec![0; sink + 1];
    let mut arcs = Vec::new();
    let mut add_arc = |tail: usize, head: usize, capacity, cost| {
        arcs.push((tail as i32, head as i32, 0, capacity, cost));
    };
    for _ in 0..units {
        supply[random.below(classes as u64) as usize] += 1;
    }
    supply[sink] = -(units as i64);
    for class in 0..classes {
        for machine in 0..machines {
            let capacity = 1 + random.below(10);
            add_arc(class, classes + machine, capacity, random.below(2001));
        }
    }
    for machine in 0..machines {
        let slope = 5 + random.below(55);
        for slot in 0..10 + random.below(11) {
            add_arc(classes + machine, sink, 1, slot * slope);
        }
    }
    for (class, &tasks) in supply[..classes].iter().enumerate() {
        add_arc(class, sink, tasks, 2_560_000);
    }
    Columns::new(&supply, &arcs)
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
