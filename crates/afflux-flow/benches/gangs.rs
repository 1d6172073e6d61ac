//! Solve times for gangs that are placed as a whole or not at all, with a fifth more pods than
//! room.
//!
//! `cargo bench -p afflux-flow --bench gangs` solves each kind of instance for seeds 101 to 110,
//! cold, and again after a tenth of the gangs has been replaced. Seeds 1 to 10 were used to tune
//! the search. `-- dump KIND SEED` writes an instance for other solvers: a line per machine with
//! the costs of its slots, a line per gang with its waiting cost, and then a line for each of its
//! classes, with its count and MACHINE,CAPACITY,COST for each machine it may use.

mod random;

use std::time::{Duration, Instant};

use afflux_flow::{ArcId, Effort, FlowError, Gate, Limits, Network, NodeId, Terms};
use random::Random;

impl Random {
    /// `count` different numbers below a limit, in ascending order.
    fn choose(&mut self, count: usize, limit: usize) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..limit).collect();
        for place in 0..count {
            let other = place + self.below((limit - place) as u64) as usize;
            numbers.swap(place, other);
        }
        numbers.truncate(count);
        numbers.sort_unstable();
        numbers
    }
}

/// The parameters of an instance.
struct Kind {
    name: &'static str,
    machines: usize,
    gangs: usize,
    /// The number of pools; each class may use only one pool.
    pools: usize,
    /// The percentage of machines of its pool that a class may use.
    admitted: usize,
    /// The waiting cost per member: the minimum, and the range above it.
    waiting: (i64, u64),
    /// The allowed gap.
    gap_ppm: u32,
}

/// Waiting costs between 4,000 and 50,000 per member.
const AGES: (i64, u64) = (4_000, 46_000);

const KINDS: [Kind; 6] = [
    Kind {
        name: "300",
        machines: 300,
        gangs: 200,
        pools: 1,
        admitted: 30,
        waiting: AGES,
        gap_ppm: 0,
    },
    Kind {
        name: "1000",
        machines: 1_000,
        gangs: 500,
        pools: 1,
        admitted: 30,
        waiting: AGES,
        gap_ppm: 0,
    },
    Kind {
        name: "pools",
        machines: 300,
        gangs: 200,
        pools: 4,
        admitted: 30,
        waiting: AGES,
        gap_ppm: 0,
    },
    Kind {
        name: "narrow",
        machines: 300,
        gangs: 200,
        pools: 1,
        admitted: 3,
        waiting: AGES,
        gap_ppm: 0,
    },
    Kind {
        name: "alike",
        machines: 300,
        gangs: 200,
        pools: 1,
        admitted: 30,
        waiting: (10_000, 1),
        gap_ppm: 1_000,
    },
    Kind {
        name: "alike1000",
        machines: 1_000,
        gangs: 500,
        pools: 1,
        admitted: 30,
        waiting: (10_000, 1),
        gap_ppm: 1_000,
    },
];

struct Class {
    count: i64,
    /// Machine, capacity and cost.
    admitted: Vec<(usize, i64, i64)>,
}

struct Gang {
    classes: Vec<Class>,
    waiting_cost: i64,
}

/// The gangs to place, and the machines.
struct Instance {
    /// By machine, the cost of each slot.
    slots: Vec<Vec<i64>>,
    gangs: Vec<Gang>,
}

impl Instance {
    fn new(kind: &Kind, random: &mut Random) -> Self {
        let gangs: Vec<Gang> = (0..kind.gangs).map(|_| gang(kind, random)).collect();
        let classes = gangs.iter().flat_map(|gang| &gang.classes);
        let members: i64 = classes.map(|class| class.count).sum();
        let slopes: Vec<i64> = (0..kind.machines).map(|_| 5 + random.below(55)).collect();
        let mut slots = vec![Vec::new(); kind.machines];
        for _ in 0..members * 5 / 6 {
            let machine = random.below(kind.machines as u64) as usize;
            let cost = slots[machine].len() as i64 * slopes[machine];
            slots[machine].push(cost);
        }
        Self { slots, gangs }
    }

    fn dump(&self) {
        let line = |word: &str, values: Vec<String>| println!("{word} {}", values.join(" "));
        for slots in &self.slots {
            line("machine", slots.iter().map(i64::to_string).collect());
        }
        for gang in &self.gangs {
            println!("gang {}", gang.waiting_cost);
            for class in &gang.classes {
                let admitted = class.admitted.iter();
                let admitted =
                    admitted.map(|(machine, room, cost)| format!("{machine},{room},{cost}"));
                line(&format!("class {}", class.count), admitted.collect());
            }
        }
    }
}

/// A gang of 2 to 32 members in 1 to 3 classes, with a waiting cost above the cost of being placed.
fn gang(kind: &Kind, random: &mut Random) -> Gang {
    let members = 2 + random.below(31);
    let mut counts = vec![1; (1 + random.below(3)).min(members) as usize];
    for _ in counts.len() as i64..members {
        let class = random.below(counts.len() as u64) as usize;
        counts[class] += 1;
    }
    let size = kind.machines / kind.pools;
    let classes = counts.into_iter().map(|count| {
        let first = match kind.pools {
            1 => 0,
            pools => random.below(pools as u64) as usize * size,
        };
        let admitted = random.choose(size * kind.admitted / 100, size).into_iter();
        let admitted = admitted.map(|machine| {
            let room = 1 + random.below(10);
            (first + machine, room, random.below(2001))
        });
        Class {
            admitted: admitted.collect(),
            count,
        }
    });
    let classes = classes.collect();
    let waiting_cost = members * (kind.waiting.0 + random.below(kind.waiting.1));
    Gang {
        classes,
        waiting_cost,
    }
}

fn terms(capacity: i64, cost: i64) -> Terms {
    Terms {
        lower: 0,
        capacity,
        cost,
    }
}

/// The network of an instance, with the nodes and arcs of each gang.
struct Cluster {
    network: Network,
    sink: NodeId,
    machines: Vec<NodeId>,
    waiting: i64,
    gates: Vec<Gate>,
    own: Vec<(Vec<NodeId>, Vec<ArcId>)>,
}

impl Cluster {
    fn new(instance: &Instance) -> Result<Self, FlowError> {
        let mut network = Network::new();
        let sink = network.add_node(0)?;
        let mut machines = Vec::new();
        for slots in &instance.slots {
            let machine = network.add_node(0)?;
            machines.push(machine);
            for &cost in slots {
                network.add_arc(machine, sink, terms(1, cost))?;
            }
        }
        let mut cluster = Self {
            network,
            sink,
            machines,
            waiting: 0,
            gates: Vec::new(),
            own: Vec::new(),
        };
        for gang in &instance.gangs {
            cluster.add(gang)?;
        }
        Ok(cluster)
    }

    fn add(&mut self, gang: &Gang) -> Result<(), FlowError> {
        let (mut nodes, mut arcs, mut members) = (Vec::new(), Vec::new(), Vec::new());
        for &Class {
            count,
            ref admitted,
        } in &gang.classes
        {
            self.waiting += count;
            let network = &mut self.network;
            let (source, class) = (network.add_node(count)?, network.add_node(0)?);
            nodes.extend([source, class]);
            let member = network.add_arc(source, class, terms(count, 0))?;
            members.push((member, count));
            arcs.push(member);
            arcs.push(network.add_arc(source, self.sink, terms(count, 0))?);
            for &(machine, room, cost) in admitted {
                arcs.push(network.add_arc(class, self.machines[machine], terms(room, cost))?);
            }
        }
        self.network.set_supply(self.sink, -self.waiting)?;
        self.own.push((nodes, arcs));
        self.gates.push(Gate {
            members,
            waiting_cost: gang.waiting_cost,
        });
        Ok(())
    }

    fn remove(&mut self, gang: usize) -> Result<(), FlowError> {
        let (nodes, arcs) = self.own.swap_remove(gang);
        let gate = self.gates.swap_remove(gang);
        self.network.remove_arcs(&arcs)?;
        self.network.remove_nodes(&nodes)?;
        self.waiting -= gate.members.iter().map(|member| member.1).sum::<i64>();
        self.network.set_supply(self.sink, -self.waiting)
    }

    /// Solves, and reports the result.
    fn solve(&mut self, gap_ppm: u32) -> Result<(String, Duration), FlowError> {
        let effort = Effort {
            flows: 200,
            gap_ppm,
        };
        let started = Instant::now();
        let answer = self
            .network
            .solve_gated(&self.gates, effort, &Limits::default())?;
        let time = started.elapsed();
        let gap = answer.gap() as f64 / answer.cost as f64 * 100.0;
        let said = format!(
            "cost {:>9} gap {gap:.4}% {:>4} flows {:>8.1} ms",
            answer.cost,
            answer.flows,
            time.as_secs_f64() * 1e3
        );
        Ok((said, time))
    }
}

fn measure(kind: &Kind, seeds: std::ops::RangeInclusive<u64>) -> Result<(), FlowError> {
    println!(
        "{}: {} machines, pools: {}, {} gangs, each class on {}% of a pool, allowed gap {} ppm",
        kind.name, kind.machines, kind.pools, kind.gangs, kind.admitted, kind.gap_ppm
    );
    let mut longest = Duration::ZERO;
    for seed in seeds {
        let mut random = Random(seed);
        let instance = Instance::new(kind, &mut random);
        let mut cluster = Cluster::new(&instance)?;
        let (first, time) = cluster.solve(kind.gap_ppm)?;
        longest = longest.max(time);
        for _ in 0..kind.gangs / 10 {
            cluster.remove(random.below(cluster.gates.len() as u64) as usize)?;
        }
        for _ in 0..kind.gangs / 10 {
            cluster.add(&gang(kind, &mut random))?;
        }
        let (next, time) = cluster.solve(kind.gap_ppm)?;
        longest = longest.max(time);
        println!("  seed {seed:>3}: {first} | next {next}");
    }
    println!("  longest {:.1} ms", longest.as_secs_f64() * 1e3);
    Ok(())
}

fn main() -> Result<(), FlowError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let kind = |name: &str| KINDS.iter().find(|kind| kind.name == name);
    let words = words.strip_suffix(&["--bench"]).unwrap_or(&words);
    match *words {
        ["dump", name, seed] => {
            if let (Some(kind), Ok(seed)) = (kind(name), seed.parse()) {
                Instance::new(kind, &mut Random(seed)).dump();
            }
        }
        [name, first, last] => {
            if let (Some(kind), Ok(first), Ok(last)) = (kind(name), first.parse(), last.parse()) {
                measure(kind, first..=last)?;
            }
        }
        _ => {
            for kind in &KINDS {
                measure(kind, 101..=110)?;
            }
        }
    }
    Ok(())
}
