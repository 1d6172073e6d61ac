//! Gangs that are placed whole or not at all, 20% over capacity.
//! `cargo bench -p afflux-flow --bench gangs -- [machines gangs [seed...]]`.

use std::time::Instant;

use afflux_flow::{ArcId, Effort, FlowError, Gate, Limits, Network, NodeId, Terms};

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

    /// So many different numbers below a limit, in rising order.
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

struct Class {
    count: i64,
    /// Machine, capacity and cost.
    admitted: Vec<(usize, i64, i64)>,
}

struct Gang {
    classes: Vec<Class>,
    waiting_cost: i64,
}

/// What there is to place, and where.
struct Instance {
    /// By machine, what each slot costs.
    slots: Vec<Vec<i64>>,
    gangs: Vec<Gang>,
}

fn instance(machines: usize, gangs: usize, seed: u64) -> Instance {
    let mut random = Random(seed);
    let gangs: Vec<Gang> = (0..gangs).map(|_| gang(machines, &mut random)).collect();
    let counts = gangs.iter().flat_map(|gang| &gang.classes);
    let members: i64 = counts.map(|class| class.count).sum();
    let slopes: Vec<i64> = (0..machines).map(|_| 5 + random.below(55)).collect();
    let mut slots = vec![Vec::new(); machines];
    for _ in 0..members * 5 / 6 {
        let machine = random.below(machines as u64) as usize;
        let cost = slots[machine].len() as i64 * slopes[machine];
        slots[machine].push(cost);
    }
    Instance { slots, gangs }
}

/// 2 to 32 members of 1 to 3 classes; each is admitted on 30% of the machines.
fn gang(machines: usize, random: &mut Random) -> Gang {
    let members = 2 + random.below(31);
    let mut counts = vec![1; (1 + random.below(3)).min(members) as usize];
    for _ in counts.len() as i64..members {
        let class = random.below(counts.len() as u64) as usize;
        counts[class] += 1;
    }
    let classes = counts.into_iter().map(|count| {
        let pools = std::env::var("POOLS").map_or(1, |f| f.parse::<usize>().unwrap());
        let part: usize = std::env::var("PART").map_or(30, |f| f.parse::<usize>().unwrap());
        let size = machines / pools;
        let pool = if pools > 1 { random.below(pools as u64) as usize * size } else { 0 };
        let admitted = random.choose((size * part / 100).max(2), size).into_iter().map(move |m| m + pool);
        let admitted = admitted.map(|machine| (machine, 1 + random.below(10), random.below(2001)));
        let admitted = admitted.collect();
        Class { count, admitted }
    });
    let classes = classes.collect();
    let waiting_cost = members * (4_000 + random.below(46_000));
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

fn network(instance: &Instance) -> Result<(Network, Vec<(Vec<(ArcId, i64)>, i64)>), FlowError> {
    let mut network = Network::new();
    let members: i64 = instance.gangs.iter().flat_map(|g| &g.classes).map(|c| c.count).sum();
    let sink = network.add_node(-members)?;
    let mut machines: Vec<NodeId> = Vec::new();
    for slots in &instance.slots {
        let machine = network.add_node(0)?;
        machines.push(machine);
        for &cost in slots {
            network.add_arc(machine, sink, terms(1, cost))?;
        }
    }
    let mut gates = Vec::new();
    for gang in &instance.gangs {
        let mut arcs = Vec::new();
        for class in &gang.classes {
            let source = network.add_node(class.count)?;
            let head = network.add_node(0)?;
            arcs.push((network.add_arc(source, head, terms(class.count, 0))?, class.count));
            network.add_arc(source, sink, terms(class.count, 0))?;
            for &(machine, capacity, cost) in &class.admitted {
                network.add_arc(head, machines[machine], terms(capacity, cost))?;
            }
        }
        gates.push((arcs, gang.waiting_cost));
    }
    Ok((network, gates))
}

fn dump(instance: &Instance) -> String {
    let mut text = String::new();
    for slots in &instance.slots {
        text += &format!("machine {}\n", slots.iter().map(|c| c.to_string()).collect::<Vec<_>>().join(" "));
    }
    for gang in &instance.gangs {
        text += &format!("gang {}\n", gang.waiting_cost);
        for class in &gang.classes {
            let admitted = class.admitted.iter().map(|(m, u, c)| format!("{m},{u},{c}")).collect::<Vec<_>>().join(" ");
            text += &format!("class {} {admitted}\n", class.count);
        }
    }
    text
}

fn main() -> Result<(), FlowError> {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if args.first().is_some_and(|a| a == "dump") {
        let n = |i: usize| args[i].parse::<usize>().unwrap();
        print!("{}", dump(&instance(n(1), n(2), n(3) as u64)));
        return Ok(());
    }
    let n = |i: usize| args[i].parse::<usize>().unwrap();
    for seed in &args[2..] {
        let inst = instance(n(0), n(1), seed.parse().unwrap());
        let (mut net, gates) = network(&inst)?;
        let t = Instant::now();
        let gates: Vec<Gate> = gates.into_iter().map(|(members, waiting_cost)| Gate { members, waiting_cost }).collect();
        let flows = std::env::var("FLOWS").map_or(1000, |f| f.parse().unwrap());
        let gap_ppm = std::env::var("PPM").map_or(0, |f| f.parse().unwrap());
        let a = net.solve_gated(&gates, Effort { flows, gap_ppm }, &Limits::default())?;
        println!("seed {seed}: cost {} bound {} gap {:.4}% flows {} in {:?}", a.cost, a.bound, a.gap() as f64 / a.cost as f64 * 100., a.flows, t.elapsed());
    }
    Ok(())
}
