//! Compares the timing wheel with a sorted map.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ptr;

use proptest::prelude::*;

use super::{Timed, TimingWheel, WheelEntry};
use crate::base::instant::Instant;

struct Element {
    number: usize,
    entry: WheelEntry<Self>,
}

impl Timed for Element {
    fn entry(&self) -> &WheelEntry<Self> {
        &self.entry
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Inserts an element that is due this much after a certain time, or before it if the number is negative.
    Insert(Origin, i64),
    /// Advances the time by this much, or until the first element is due. Takes out all elements that are then due.
    Advance(Option<u64>),
    /// Removes an element.
    Remove(usize),
    /// Takes out all elements and inserts them again.
    Drain,
}

/// The time from which an [insertion](Step::Insert) counts.
#[derive(Clone, Copy, Debug)]
enum Origin {
    Now,
    /// The time of an element.
    Element(usize),
}

/// Distances in time: zero or tiny, medium, of any size, and the largest possible.
fn distances() -> impl Strategy<Value = u64> {
    prop_oneof![
        5 => 0..20u64,
        4 => (36..50u32, any::<u64>()).prop_map(|(bits, all)| all >> bits),
        3 => (0..64u32, any::<u64>()).prop_map(|(bits, all)| all >> bits),
        1 => Just(u64::MAX),
    ]
}

/// Distances of at most eight rotations. Elements at such distances from each other are often in one slot of a level
/// whose slots cover several rotations.
fn distances_within_a_slot() -> impl Strategy<Value = i64> {
    (37..63u32, any::<i64>()).prop_map(|(bits, all)| all >> bits)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => distances().prop_map(|distance| Step::Insert(Origin::Now, i64::try_from(distance).unwrap_or(i64::MAX))),
        1 => (0..20i64).prop_map(|distance| Step::Insert(Origin::Now, -distance)),
        4 => (any::<usize>(), distances_within_a_slot())
            .prop_map(|(choice, distance)| Step::Insert(Origin::Element(choice), distance)),
        4 => distances().prop_map(|distance| Step::Advance(Some(distance >> 3))),
        2 => Just(Step::Advance(None)),
        3 => any::<usize>().prop_map(Step::Remove),
        1 => Just(Step::Drain),
    ];
    prop::collection::vec(step, 0..300)
}

/// What the wheel should contain. Maps an element's time, and the number of the step that inserted it, to the element.
type Model = BTreeMap<(u64, usize), &'static Element>;

/// Returns the time of an element and the number of the step that inserted it. Returns `None` if there is no element.
fn chosen(model: &Model, choice: usize) -> Option<(u64, usize)> {
    model.keys().nth(choice.checked_rem(model.len())?).copied()
}

proptest! {
    /// Elements come out in the order of their times. Elements with the same time come out in the order of
    /// insertion.
    #[test]
    fn behaves_like_a_sorted_map(start in distances(), steps in steps()) {
        let mut wheel = TimingWheel::<Element>::new().unwrap();
        let mut model = Model::new();
        let mut now = start;
        // Whether an element was removed that may have been the first. If so, `earliest` is only a lower bound.
        let mut is_lower_bound = false;
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Insert(origin, distance) => {
                    let origin = match origin {
                        Origin::Now => now,
                        Origin::Element(choice) => chosen(&model, choice).map_or(now, |(when, _)| when),
                    };
                    let element = &*Box::leak(Box::new(Element { number, entry: WheelEntry::unlinked() }));
                    let when = origin.saturating_add_signed(distance).min(Instant::LAST.as_nanos());
                    wheel.insert(element, Instant::from_nanos(when));
                    model.insert((when.max(wheel.base), number), element);
                }
                Step::Advance(distance) => {
                    let first = model.first_key_value().map_or(now, |(&(when, _), _)| when);
                    now = distance.map_or(now.max(first), |distance| now.saturating_add(distance)).min(Instant::LAST.as_nanos());
                    while let Some((found, when)) = wheel.pop_due(Instant::from_nanos(now)) {
                        let ((expected, number), element) = model.pop_first().expect("there is one less than expected");
                        prop_assert_eq!((when.as_nanos(), found.number), (expected, number));
                        prop_assert!(ptr::eq(found, element) && !found.entry.is_linked());
                        let next = model.first_key_value().map(|(&(when, _), _)| Instant::from_nanos(when));
                        prop_assert!(is_lower_bound || wheel.earliest() == next.unwrap_or(Instant::NEVER));
                    }
                    prop_assert!(model.first_key_value().is_none_or(|((when, _), _)| *when > now));
                }
                Step::Remove(choice) => {
                    let Some(key) = chosen(&model, choice) else { continue };
                    let element = model.remove(&key).unwrap();
                    wheel.remove(element);
                    prop_assert!(!element.entry.is_linked());
                    is_lower_bound = true;
                }
                Step::Drain => {
                    let mut drained = Vec::new();
                    wheel.drain(|element, when| drained.push((element, when)));
                    let expected: Vec<_> = model.iter().map(|(&(when, _), element)| (element.number, when)).collect();
                    let found: Vec<_> = drained.iter().map(|(element, when)| (element.number, when.as_nanos())).collect();
                    prop_assert_eq!(found, expected);
                    for (element, when) in drained {
                        wheel.insert(element, when);
                    }
                    is_lower_bound = false;
                }
            }
            prop_assert_eq!((wheel.len() as usize, wheel.base <= now), (model.len(), true));
            let first = model.first_key_value().map_or(Instant::NEVER, |(&(when, _), _)| Instant::from_nanos(when));
            prop_assert!(wheel.earliest() <= first && (is_lower_bound || wheel.earliest() == first));
            prop_assert_eq!(wheel.earliest() == Instant::NEVER, model.is_empty());
            prop_assert!(model.values().all(|element| element.entry.is_linked()));
        }
    }
}

/// Removing the first element leaves a lower bound that is too early; the next call of `pop_due` corrects it.
#[test]
fn earliest_is_corrected_by_the_next_call_after_the_first_element_is_removed() {
    let new = |number| &*Box::leak(Box::new(Element { number, entry: WheelEntry::unlinked() }));
    let times: [_; 3] = core::array::from_fn(|number| Instant::from_nanos((1 << 40) + number as u64));
    // After the removal, one or two elements are left.
    for count in [2, 3] {
        let mut wheel = TimingWheel::<Element>::new().unwrap();
        let elements: Vec<_> = (0..count).map(new).collect();
        for (element, when) in elements.iter().zip(times) {
            wheel.insert(element, when);
        }
        wheel.remove(elements[0]);
        assert_eq!(wheel.earliest(), times[0]);
        assert!(wheel.pop_due(times[0]).is_none());
        assert_eq!(wheel.earliest(), times[1]);
        for (number, &when) in times.iter().enumerate().take(count).skip(1) {
            assert_eq!(wheel.pop_due(when).unwrap().0.number, number);
        }
        assert_eq!(wheel.earliest(), Instant::NEVER);
    }
}
