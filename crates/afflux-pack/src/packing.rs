//! A packing: units of classes on machines, with the exact account of what still fits, and costs.

use afflux_account::{Account, Unit};

/// What a round of placements knows: the account, the pairs of a class and a machine that can
/// matter, and what they cost.
///
/// A pair is left out if the machine does not admit the class or has no room for it at the start:
/// what was there before cannot be moved.
#[derive(Clone, Debug)]
pub struct Packing {
    account: Account,
    /// By class, where its pairs begin, and one more entry.
    first: Vec<usize>,
    /// By pair, its machine; ascending within a class.
    machine: Vec<u32>,
    /// By pair, the cost of a task.
    cost: Vec<i64>,
    /// By pair, the room at the start.
    room_at_start: Vec<i32>,
    /// By machine, by how much each further unit costs more.
    slope: Vec<i64>,
    /// The divisor of each resource when amounts of different resources are added.
    scale: Vec<f64>,
    /// How many searches gave up at a limit.
    cut_searches: u64,
}

/// The pairs of every class as the caller knows them, before those without room are left out.
#[derive(Clone, Copy, Debug)]
pub struct PairColumns<'a> {
    /// By class, where its pairs begin, and one more entry.
    pub first: &'a [i64],
    /// By pair, its machine; ascending within a class.
    pub machine: &'a [i32],
    /// By pair, the cost of a task.
    pub cost: &'a [i64],
    /// By pair, how many tasks fit at the start, where that is known; else the account is asked.
    pub room: Option<&'a [i64]>,
}

/// The pairs of some classes that have room now.
#[derive(Clone, Debug, Default)]
pub struct OpenPairs {
    /// By class, where its pairs begin, and one more entry.
    pub first: Vec<i64>,
    /// By pair, its machine.
    pub machine: Vec<i32>,
    /// By pair, how many tasks fit.
    pub room: Vec<i64>,
    /// By pair, the cost of a task.
    pub cost: Vec<i64>,
    /// By machine, how many tasks of the smallest class fit.
    pub slots: Vec<i64>,
}

/// More tasks than any machine holds.
const UNLIMITED: i64 = afflux_account::UNLIMITED;

impl Packing {
    /// An empty packing. The columns must be consistent with the account.
    #[must_use]
    pub fn new(account: Account, pairs: PairColumns<'_>, scale: Vec<f64>) -> Self {
        let mut first = Vec::with_capacity(pairs.first.len());
        let (mut machine, mut cost, mut room_at_start) = (Vec::new(), Vec::new(), Vec::new());
        first.push(0);
        for class in 0..account.classes().len() {
            for pair in pairs.first[class] as usize..pairs.first[class + 1] as usize {
                let room = match pairs.room {
                    Some(room) => room[pair],
                    // Rules may leave more room once other units are there.
                    None => account.capacity(class, pairs.machine[pair] as usize),
                };
                if room > 0 {
                    machine.push(pairs.machine[pair] as u32);
                    cost.push(pairs.cost[pair]);
                    room_at_start.push(room.min(i64::from(i32::MAX)) as i32);
                }
            }
            first.push(machine.len());
        }
        let slope = vec![0; account.machines()];
        Self {
            account,
            first,
            machine,
            cost,
            room_at_start,
            slope,
            scale,
            cut_searches: 0,
        }
    }

    /// A search for units with constraints between tasks gave up at a limit: there may be places.
    pub(crate) fn note_cut_search(&mut self) {
        self.cut_searches += 1;
    }

    /// How many searches for units with constraints between tasks gave up at a limit.
    #[must_use]
    pub fn cut_searches(&self) -> u64 {
        self.cut_searches
    }

    /// The account.
    #[must_use]
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The account, to mark and to roll back.
    pub fn account_mut(&mut self) -> &mut Account {
        &mut self.account
    }

    /// The number of classes.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.first.len() - 1
    }

    /// The number of machines.
    #[must_use]
    pub fn machines(&self) -> usize {
        self.slope.len()
    }

    /// By how much each further unit on a machine costs more.
    #[must_use]
    pub fn slope(&self) -> &[i64] {
        &self.slope
    }

    /// Sets by how much each further unit on each machine costs more.
    pub fn set_slope(&mut self, slope: Vec<i64>) {
        self.slope = slope;
    }

    /// The machines of the pairs of a class.
    #[must_use]
    pub fn machines_of(&self, class: usize) -> &[u32] {
        &self.machine[self.first[class]..self.first[class + 1]]
    }

    /// The costs of the pairs of a class.
    #[must_use]
    pub fn costs_of(&self, class: usize) -> &[i64] {
        &self.cost[self.first[class]..self.first[class + 1]]
    }

    /// Changes what a task of a class costs, by pair; `costs` is aligned with `machines_of`.
    pub fn set_costs(&mut self, class: usize, costs: &[i64]) {
        self.cost[self.first[class]..self.first[class + 1]].copy_from_slice(costs);
    }

    /// The room of the pairs of a class at the start.
    #[must_use]
    pub fn room_at_start(&self, class: usize) -> &[i32] {
        &self.room_at_start[self.first[class]..self.first[class + 1]]
    }

    /// The cost of a task of the class on the machine; none if they are no pair.
    #[must_use]
    pub fn cost_on(&self, class: usize, machine: usize) -> Option<i64> {
        let machines = self.machines_of(class);
        let place = match machines.len() == self.machines() {
            true => Some(machine),
            false => machines.binary_search(&(machine as u32)).ok(),
        };
        place.map(|place| self.cost[self.first[class] + place])
    }

    /// Whether one more task of the class may go to the machine and fits there.
    #[must_use]
    pub fn fits(&self, class: usize, machine: usize) -> bool {
        self.account.fits(class, machine) && self.cost_on(class, machine).is_some()
    }

    /// How many more tasks of the class the machine takes.
    #[must_use]
    pub fn room(&self, class: usize, machine: usize) -> i64 {
        match self.cost_on(class, machine) {
            Some(_) => self.account.room(class, machine),
            None => 0,
        }
    }

    /// How many more tasks each machine of a class takes; aligned with `machines_of`.
    #[must_use]
    pub fn rooms(&self, class: usize) -> Vec<i64> {
        let pairs = self.first[class]..self.first[class + 1];
        pairs.map(|pair| self.room_of_pair(class, pair)).collect()
    }

    /// Whether there is room for so many tasks of a class, if nothing else is placed.
    #[must_use]
    pub fn has_room(&self, class: usize, count: i64) -> bool {
        let mut missing = count;
        for pair in self.first[class]..self.first[class + 1] {
            if missing <= 0 {
                return true;
            }
            missing -= self.room_of_pair(class, pair).min(missing);
        }
        missing <= 0
    }

    /// The pairs with room of the classes that are chosen, and the slots of every machine.
    #[must_use]
    pub fn open_pairs(&self, chosen: &[bool]) -> OpenPairs {
        let width = self.account.resources().width();
        // By machine and resource, the smallest amount that a class with room asks for.
        let mut least = vec![i64::MAX; self.machines() * width];
        let mut asked = vec![0; width];
        let mut open = OpenPairs {
            first: vec![0],
            ..OpenPairs::default()
        };
        for (class, &chosen) in chosen.iter().enumerate() {
            if chosen {
                asked.fill(0);
                for &(column, amount) in &self.account.classes()[class].request {
                    asked[column as usize] = amount;
                }
                for pair in self.first[class]..self.first[class + 1] {
                    let (machine, cost) = (self.machine[pair], self.cost[pair]);
                    let room = self.room_of_pair(class, pair);
                    if room == 0 {
                        continue;
                    }
                    open.machine.push(machine as i32);
                    open.room.push(room);
                    open.cost.push(cost);
                    let here = &mut least[machine as usize * width..(machine as usize + 1) * width];
                    for (least, &asked) in here.iter_mut().zip(&asked) {
                        *least = (*least).min(asked);
                    }
                }
            }
            open.first.push(open.machine.len() as i64);
        }
        open.slots = (0..self.machines())
            .map(|machine| self.slots(machine, &least))
            .collect();
        open
    }

    /// How many more tasks of the class the machine of one of its pairs takes.
    fn room_of_pair(&self, class: usize, pair: usize) -> i64 {
        let machine = self.machine[pair] as usize;
        // Rules depend on units elsewhere, too.
        let as_at_start = self.account.units(machine).is_empty() && !self.account.has_rules(class);
        match as_at_start {
            true => i64::from(self.room_at_start[pair]),
            false => self.account.room(class, machine),
        }
    }

    fn slots(&self, machine: usize, least: &[i64]) -> i64 {
        let free = self.account.resources().of(machine).iter();
        let least = &least[machine * free.len()..(machine + 1) * free.len()];
        let each = free.zip(least).filter(|&(_, &least)| least > 0);
        let most = each.map(|(&free, &least)| free.max(0) / least).min();
        most.unwrap_or(UNLIMITED).min(UNLIMITED)
    }

    /// The number of units on a machine.
    #[must_use]
    pub fn count(&self, machine: usize) -> i64 {
        self.account.units(machine).len() as i64
    }

    /// The cost of one more task on a machine, given the cost of its pair.
    #[must_use]
    pub fn marginal_cost(&self, machine: usize, cost: i64) -> i64 {
        cost + self.slope[machine] * self.count(machine)
    }

    /// The amounts left on a machine, scaled and added.
    #[must_use]
    pub fn left(&self, machine: usize) -> f64 {
        let free = self.account.resources().of(machine).iter();
        free.zip(&self.scale)
            .map(|(&free, &scale)| free as f64 / scale)
            .sum()
    }

    /// The scaled size of what one task asks for.
    #[must_use]
    pub fn size(&self, class: usize) -> f64 {
        let request = self.account.classes()[class].request.iter();
        request
            .map(|&(column, asked)| asked as f64 / self.scale[column as usize])
            .sum()
    }

    /// The machine with room for this class that has the least left; of equal ones the cheapest.
    #[must_use]
    pub fn tightest(&self, class: usize) -> Option<usize> {
        let costs = self.costs_of(class).iter();
        let pairs = self
            .machines_of(class)
            .iter()
            .map(|&machine| machine as usize)
            .zip(costs);
        let open = pairs.filter(|&(machine, _)| self.account.fits(class, machine));
        let keyed = open.map(|(machine, &cost)| {
            (
                self.left(machine),
                self.marginal_cost(machine, cost),
                machine,
            )
        });
        let best = keyed.min_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        best.map(|(_, _, machine)| machine)
    }

    /// Puts units of a class on a machine; returns how many had room.
    pub fn place(&mut self, class: usize, machine: usize, count: i64) -> i64 {
        if self.cost_on(class, machine).is_none() {
            return 0;
        }
        let count = count.min(self.account.room(class, machine));
        let placed =
            (0..count).take_while(|unit| self.account.take(class, machine, None, count - unit - 1));
        placed.count() as i64
    }

    /// Puts one unit with these devices on a machine.
    #[must_use]
    pub fn place_unit(&mut self, unit: Unit, machine: usize) -> bool {
        self.account
            .take(unit.class, machine, Some(unit.devices), 0)
    }

    /// Puts one unit after the other on the tightest machine; returns how many had room.
    pub fn place_tightest(&mut self, class: usize, count: i64) -> i64 {
        let placed = (0..count).take_while(|_| {
            self.tightest(class)
                .is_some_and(|machine| self.place(class, machine, 1) == 1)
        });
        placed.count() as i64
    }

    /// Puts units on the machines that are cheapest now; returns how many had room.
    pub fn place_cheapest(&mut self, class: usize, count: i64) -> i64 {
        let mut missing = count;
        loop {
            let placed = self.place_on_cheapest(class, missing);
            missing -= placed;
            // A rule about domains may leave room elsewhere once units are there.
            if placed == 0 || missing == 0 || !self.account.has_rules(class) {
                return count - missing;
            }
        }
    }

    /// The same, with the machines in one order from the start.
    fn place_on_cheapest(&mut self, class: usize, count: i64) -> i64 {
        let costs = self.costs_of(class).iter();
        let mut order: Vec<(i64, usize)> = self
            .machines_of(class)
            .iter()
            .zip(costs)
            .filter(|&(&machine, _)| self.account.fits(class, machine as usize))
            .map(|(&machine, &cost)| (self.marginal_cost(machine as usize, cost), machine as usize))
            .collect();
        order.sort_unstable();
        let mut missing = count;
        for (_, machine) in order {
            missing -= self.place(class, machine, missing);
            if missing == 0 {
                break;
            }
        }
        count - missing
    }

    /// Removes the units from a machine that no constraint between tasks concerns; returns their
    /// classes. Others would have to be judged again with every unit that is moved.
    pub fn clear(&mut self, machine: usize) -> Vec<usize> {
        let units = self.account.units(machine).iter();
        let classes: Vec<usize> = units
            .map(|unit| unit.class)
            .filter(|&class| !self.account.classes()[class].is_related())
            .collect();
        for &class in classes.iter().rev() {
            let _ = self.account.release(class, machine);
        }
        classes
    }

    /// The machines that some class may use.
    #[must_use]
    pub fn usable_machines(&self) -> Vec<usize> {
        let mut is_usable = vec![false; self.machines()];
        self.machine
            .iter()
            .for_each(|&machine| is_usable[machine as usize] = true);
        (0..self.machines())
            .filter(|&machine| is_usable[machine])
            .collect()
    }

    /// The number of placed units of each class.
    #[must_use]
    pub fn placed(&self) -> Vec<i64> {
        let mut placed = vec![0; self.classes()];
        for machine in 0..self.machines() {
            for unit in self.account.units(machine) {
                placed[unit.class] += 1;
            }
        }
        placed
    }

    /// What the units on a machine cost.
    #[must_use]
    pub fn cost_of_machine(&self, machine: usize) -> i64 {
        let count = self.count(machine);
        let slots = self.slope[machine] * (count * (count - 1) / 2);
        let units = self.account.units(machine).iter();
        units
            .filter_map(|unit| self.cost_on(unit.class, machine))
            .sum::<i64>()
            + slots
    }

    /// What all units cost.
    #[must_use]
    pub fn cost(&self) -> i64 {
        (0..self.machines())
            .map(|machine| self.cost_of_machine(machine))
            .sum()
    }
}
