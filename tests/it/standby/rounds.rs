//! Two and three instances, of which the streaming one is repeatedly killed or frozen.

use std::time::Instant;

use super::frozen::with_server_timeout;
use crate::harness::instances::{stands_by, start_another, start_second, streams, wait_takeover};
use crate::harness::load::Pace;
use crate::harness::rig::{REPEATED_BY_RESTART_MAX, Rig};
use crate::standby::SOON;
use testkit::relay::Relay;
use testkit::wait::{wait_for, wait_until};

/// Takeovers with two instances, and as many with three.
const TAKEOVERS: usize = 10;

struct Instances {
    rig: Rig,
    /// The instances other than the fixture's.
    others: Vec<Relay>,
    /// How many events may be repeated.
    repeated_max: usize,
}

impl Instances {
    #[track_caller]
    fn start(name: &str, count: usize) -> Instances {
        let rig = with_server_timeout(name, "2s").start(Pace::Steady);
        let others = (1..count).map(|_| start_second(&rig.fixture)).collect();
        Instances { rig, others, repeated_max: 0 }
    }

    fn get(&mut self, number: usize) -> &mut Relay {
        match number.checked_sub(1) {
            None => self.rig.fixture.relay(),
            Some(other) => &mut self.others[other],
        }
    }

    fn numbers(&self) -> std::ops::RangeInclusive<usize> {
        0..=self.others.len()
    }

    #[track_caller]
    fn streaming(&mut self) -> usize {
        wait_for("an instance to stream", SOON, || {
            self.numbers().find(|number| streams(self.get(*number)))
        })
    }

    /// The streaming instance may have changed again: one that hardly gets CPU time loses the slot.
    #[track_caller]
    fn wait_settled(&mut self) {
        wait_until("one instance to stream and the others to stand by", SOON, || {
            let streaming = self.numbers().filter(|number| streams(self.get(*number))).count();
            let waiting = self.numbers().filter(|number| stands_by(self.get(*number))).count();
            streaming == 1 && waiting == self.others.len()
        });
    }

    #[track_caller]
    fn wait_takeover(&mut self, from: usize, name: &str) {
        let begun = Instant::now();
        let own = (from != 0).then(|| self.rig.fixture.take_relay());
        let others = self.others.iter().enumerate().filter(|(number, _)| number + 1 != from);
        let candidates: Vec<&Relay> = own.iter().chain(others.map(|(_, relay)| relay)).collect();
        wait_takeover(name, begun, &candidates);
        if let Some(relay) = own {
            self.rig.fixture.give_relay(relay);
        }
    }

    #[track_caller]
    fn kill(&mut self, number: usize) {
        self.get(number).kill9();
        self.wait_takeover(number, "SIGKILL");
        match number.checked_sub(1) {
            None => drop(self.rig.fixture.start_relay()),
            Some(other) => self.others[other] = start_another(&self.rig.fixture),
        }
        self.repeated_max += REPEATED_BY_RESTART_MAX;
    }

    #[track_caller]
    fn freeze(&mut self, number: usize) {
        let before = self.rig.load.committed();
        self.get(number).pause();
        self.wait_takeover(number, "SIGSTOP");
        let late = self.rig.load.committed() - before;
        self.get(number).resume();
        self.repeated_max += 2 * REPEATED_BY_RESTART_MAX + late;
    }

    #[track_caller]
    fn run(mut self) {
        for _ in 0..TAKEOVERS {
            let number = self.streaming();
            if rand::random_ratio(1, 3) {
                self.freeze(number)
            } else {
                self.kill(number)
            }
            self.wait_settled();
            self.rig.load.wait_for_more(rand::random_range(50..1_500));
        }
        let active = self.streaming();
        for number in self.numbers() {
            assert_eq!(streams(self.get(number)), number == active, "two instances stream");
        }
        let repeated_max = self.repeated_max;
        self.rig.judge(repeated_max);
    }
}

#[test]
fn two_instances_replace_each_other_real_kafka() {
    Instances::start("two", 2).run();
}

#[test]
fn three_instances_replace_each_other_real_kafka() {
    Instances::start("three", 3).run();
}
