//! Initializations that panic, and initializations whose values panic when they are dropped.

use std::panic::panic_any;

use super::super::platform::{Once, OnceCell, yield_now};
use super::{Bomb, Fuzzer, verify};

impl Fuzzer<'_> {
    pub(super) fn initialization(&mut self) {
        let (how, value) = (self.random.u32(..6), self.value());
        let initialize = |panics: bool| {
            yield_now();
            if panics {
                panic_any(Bomb);
            }
        };
        match self.random.u32(..6) {
            0 => self.shared.once.call_once(|| initialize(how < 4)),
            1 => self.shared.cell.get_or_init(|| (initialize(how < 5), value).1).verify(),
            2 if how == 0 => verify(self.shared.cell.set(value).err()),
            3 => {
                let once = Once::new();
                // The inner call panics, because it is a recursive one.
                once.call_once(|| once.call_once(|| ()));
            }
            4 => {
                let cell = OnceCell::new();
                drop(cell.set(value));
                verify(cell.set(self.value()).err());
                verify(cell.into_inner());
            }
            _ => verify(self.shared.cell.get().map(|value| value.verify()).and(None)),
        }
    }
}
