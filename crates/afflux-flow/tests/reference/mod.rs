//! A simple reference solver: successive Bellman-Ford paths.

use afflux_flow::Problem;

/// An arc of the residual network: tail, head, residual capacity, cost; its reverse is the next or
/// previous one.
type Step = (usize, usize, i64, i64);

/// The minimum cost of a flow, or none if the problem is infeasible.
pub fn least_cost(problem: &Problem<'_>) -> Option<i128> {
    cheapest_flow(problem).map(|(cost, _)| cost)
}

/// The minimum cost and a flow of that cost, or none if the problem is infeasible.
pub fn cheapest_flow(problem: &Problem<'_>) -> Option<(i128, Vec<i64>)> {
    let mut excess = problem.supply().to_vec();
    let mut steps: Vec<Step> = Vec::new();
    let mut cost = 0_i128;
    for arc in problem.arcs() {
        // At first lower bounds are met and negative arcs saturated, so there is no negative cycle.
        let flow = if arc.cost < 0 {
            arc.capacity
        } else {
            arc.lower
        };
        cost += i128::from(flow) * i128::from(arc.cost);
        excess[arc.tail] -= flow;
        excess[arc.head] += flow;
        steps.push((arc.tail, arc.head, arc.capacity - flow, arc.cost));
        steps.push((arc.head, arc.tail, flow - arc.lower, -arc.cost));
    }
    while let Some(source) = excess.iter().position(|&units| units > 0) {
        let (sink, path) = cheapest_path(&steps, &excess, source)?;
        let narrowest = path.iter().map(|&step| steps[step].2).min()?;
        let units = narrowest.min(excess[source]).min(-excess[sink]);
        for step in path {
            steps[step].2 -= units;
            steps[step ^ 1].2 += units;
            cost += i128::from(units) * i128::from(steps[step].3);
        }
        excess[source] -= units;
        excess[sink] += units;
    }
    let flow = problem.arcs().zip(steps.chunks(2));
    let flow = flow.map(|(arc, steps)| arc.lower + steps[1].2).collect();
    Some((cost, flow))
}

fn cheapest_path(steps: &[Step], excess: &[i64], source: usize) -> Option<(usize, Vec<usize>)> {
    let mut distance = vec![i64::MAX; excess.len()];
    let mut by = vec![usize::MAX; excess.len()];
    distance[source] = 0;
    for _ in 0..excess.len() {
        for (index, &(tail, head, room, cost)) in steps.iter().enumerate() {
            if room > 0 && distance[tail] < i64::MAX && distance[tail] + cost < distance[head] {
                distance[head] = distance[tail] + cost;
                by[head] = index;
            }
        }
    }
    let sink = (0..excess.len())
        .filter(|&node| excess[node] < 0 && distance[node] < i64::MAX)
        .min_by_key(|&node| distance[node])?;
    let mut path = Vec::new();
    let mut node = sink;
    while node != source {
        path.push(by[node]);
        node = steps[by[node]].0;
    }
    Some((sink, path))
}
