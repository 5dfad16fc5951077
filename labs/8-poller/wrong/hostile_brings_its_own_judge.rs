//! Its tests are of a type of its own, which knows each flaw by its name.
//! does not compile

// ANCHOR: trials
#[derive(Debug)]
pub struct Oracle;

impl crate::trial::Trial for Oracle {
    type Flaw = crate::signals::Flaw;
    type Seen = Option<Self::Flaw>;

    const FLAWS: &'static [&'static [Self::Flaw]] = <&[Party] as crate::trial::Trial>::FLAWS;
    const LIMIT: &'static str = "";

    fn is_small(&self) -> bool {
        true
    }

    fn run(&self, flaw: Option<Self::Flaw>) -> Self::Seen {
        flaw
    }
}

pub const TRIALS: &[Oracle] = &[Oracle];
// ANCHOR_END: trials
