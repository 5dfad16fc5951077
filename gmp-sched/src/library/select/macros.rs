//! The `select!` macro. How a select proceeds is in [`select`](crate::library::select).

/// Waits for one of several channel operations. Go: `select`.
///
/// | arm | is taken when |
/// |---|---|
/// | `recv(source) -> result => …` | a value was received, or the channel is closed and drained; `result` is a `Result<T, RecvError>` |
/// | `send(sink, value) -> result => …` | the value was sent, or the channel is closed; `result` is a `Result<(), SendError<T>>` |
/// | `send_from(sink, option) -> result => …` | as for `send`, with the value in an `Option`; never while the `Option` is `None` |
/// | `default => …` | at one instant no other case was ready; must be last |
/// | `timeout(duration) => …` | the time has passed since the select began; must be last |
/// | `until(limit) => …` | the [limit](crate::cancel::Limit) is over (a deadline has passed, a context is done); must be last |
///
/// After `->` comes an irrefutable pattern; the arrow and the pattern may be left out. Among several ready arms one is
/// chosen at random with equal probability; an `until` whose limit is over and a `timeout` of zero are ready arms, too.
/// So a loop ends soon after its deadline even if one of its channels is always ready. If the select begins with
/// `ordered;`, the first ready arm is chosen. A
/// [source](crate::select::Source) is a receiver, a [`Chan`](crate::chan::Chan), a timer or a ticker; a
/// [sink](crate::select::Sink) is a sender or a `Chan`. All sources, sinks, values and limits are evaluated before the
/// select begins, in order. The value of a `send` that is not chosen is dropped. The value of a
/// [`send_from`](crate::select::send_from()) stays in the `Option`. Blocks the calling G, unless there is a `default`.
///
/// `break` and `continue` in an arm refer to the loop around the select. (In Go, `break` leaves the select.)
///
/// # Without channels
///
/// A select without arms blocks forever. A select with only a `timeout` or `until` arm blocks until the time or the
/// limit is over. Neither of these selects has a channel whose type determines the platform, so they need the `select!`
/// of a platform: `native::select!`, `sim::select!`, `kernel::select!`. Those macros accept all other arms, too. For a
/// platform of your own, name it before the arms:
///
/// ```
/// use core::time::Duration;
/// use gmp_sched::native::{self, Native};
///
/// unsafe { native::enter() }.run(1, || {
///     let start = native::now();
///     native::select! { timeout(Duration::from_millis(1)) => {} }
///     gmp_sched::select! { on Native; timeout(Duration::from_millis(1)) => {} }
///     assert!(native::now() - start >= Duration::from_millis(2));
///     native::go(|| native::select! {}).detach();
/// });
/// ```
///
/// # Examples
///
/// ```
/// use gmp_sched::native::{self, channel, go};
/// use gmp_sched::select;
///
/// unsafe { native::enter() }.run(2, || {
///     let (numbers, received) = channel(0);
///     let (quit, quits) = channel::<()>(0);
///     let fibonacci = go(move || {
///         let (mut a, mut b) = (0, 1);
///         loop {
///             select! {
///                 send(numbers, a) => (a, b) = (b, a + b),
///                 recv(quits) => return a,
///             }
///         }
///     });
///     assert!(received.iter().take(10).eq([0, 1, 1, 2, 3, 5, 8, 13, 21, 34]));
///     drop(quit);
///     assert_eq!(fibonacci.join(), Ok(55));
/// });
/// ```
///
/// ```
/// use core::time::Duration;
/// use gmp_sched::native::{self, channel};
/// use gmp_sched::select;
///
/// unsafe { native::enter() }.run(1, || {
///     let (sender, receiver) = channel(1);
///     let mut seen = Vec::new();
///     loop {
///         select! {
///             ordered;
///             recv(receiver) -> value => {
///                 seen.push(value);
///                 if value.is_err() {
///                     break;
///                 }
///             }
///             timeout(Duration::from_micros(10)) => {
///                 if sender.send(seen.len()).is_ok() && !seen.is_empty() {
///                     sender.close();
///                 }
///             }
///         }
///     }
///     assert_eq!(seen.len(), 3);
/// });
/// ```
#[macro_export]
macro_rules! select {
    (on $platform:ty; ordered; $($arms:tt)*) => { $crate::__select!(@arms [on $platform] (.ordered()) [] $($arms)*) };
    (on $platform:ty; $($arms:tt)*) => { $crate::__select!(@arms [on $platform] () [] $($arms)*) };
    (ordered; $($arms:tt)*) => { $crate::__select!(@arms [] (.ordered()) [] $($arms)*) };
    ($($arms:tt)*) => { $crate::__select!(@arms [] () [] $($arms)*) };
}

/// The implementation of [`select!`](macro@crate::select): processes the arms one by one and collects them as `(name,
/// case, pattern, body)`. Each name comes from a different expansion, so macro hygiene makes the names distinct.
#[doc(hidden)]
#[macro_export]
macro_rules! __select {
    (@arms $on:tt $mode:tt $done:tt default => $body:expr $(,)?) => {
        $crate::__select!(@run $on $mode $done (.poll()) ($body))
    };
    (@arms $on:tt $mode:tt $done:tt timeout($timeout:expr $(,)?) => $body:expr $(,)?) => {
        $crate::__select!(@run $on $mode $done (.wait_timeout($timeout)) ($body))
    };
    (@arms $on:tt $mode:tt $done:tt until($limit:expr $(,)?) => $body:expr $(,)?) => {
        $crate::__select!(@run $on $mode $done (.wait_until($limit)) ($body))
    };
    // These rules catch mistakes that the compiler would otherwise report in terms of the macro's expansion.
    (@arms $on:tt $mode:tt $done:tt default => $($rest:tt)*) => {
        ::core::compile_error!("`default` must be the last arm of a `select!`, as `default => body`")
    };
    (@arms $on:tt $mode:tt $done:tt timeout($($limit:tt)*) => $($rest:tt)*) => {
        ::core::compile_error!("`timeout` must be the last arm of a `select!`, as `timeout(duration) => body`")
    };
    (@arms $on:tt $mode:tt $done:tt until($($limit:tt)*) => $($rest:tt)*) => {
        ::core::compile_error!("`until` must be the last arm of a `select!`, as `until(limit) => body`")
    };
    (@arms $on:tt $mode:tt $done:tt $kind:ident $operands:tt -> Ok $inner:tt => $($rest:tt)*) => {
        $crate::__select!(@refutable $kind $operands Ok $inner)
    };
    (@arms $on:tt $mode:tt $done:tt $kind:ident $operands:tt -> Err $inner:tt => $($rest:tt)*) => {
        $crate::__select!(@refutable $kind $operands Err $inner)
    };
    // An arm that ends in a block needs no comma.
    (@arms $on:tt $mode:tt $done:tt $kind:ident($($operand:expr),+ $(,)?) $(-> $pattern:pat)? => $body:block $(, $($rest:tt)*)?) => {
        $crate::__select!(@arm $on $mode $done ($kind($($operand),+)) ($($pattern)?) ($body) $($($rest)*)?)
    };
    (@arms $on:tt $mode:tt $done:tt $kind:ident($($operand:expr),+ $(,)?) $(-> $pattern:pat)? => $body:block $($rest:tt)*) => {
        $crate::__select!(@arm $on $mode $done ($kind($($operand),+)) ($($pattern)?) ($body) $($rest)*)
    };
    (@arms $on:tt $mode:tt $done:tt $kind:ident($($operand:expr),+ $(,)?) $(-> $pattern:pat)? => $body:expr $(, $($rest:tt)*)?) => {
        $crate::__select!(@arm $on $mode $done ($kind($($operand),+)) ($($pattern)?) ($body) $($($rest)*)?)
    };
    (@arms $on:tt $mode:tt $done:tt) => {
        $crate::__select!(@run $on $mode $done (.wait()) (::core::unreachable!("a select without default does one of its cases")))
    };
    (@arms $on:tt $mode:tt $done:tt $($rest:tt)*) => {
        ::core::compile_error!(::core::concat!(
            "expected an arm of a `select!`: `recv(source) -> result => body`, `send(sink, value) -> result => body`, ",
            "`send_from(sink, option) -> result => body` or, as the last, `default => body`, `timeout(duration) => body` or ",
            "`until(limit) => body`. An arm whose body is not a block ends with a comma. This is not one: ",
            ::core::stringify!($($rest)*)
        ))
    };
    (@refutable $kind:ident $operands:tt $name:ident $inner:tt) => {
        ::core::compile_error!(::core::concat!(
            "the arm is taken for every result, so its pattern must match all of them, and `",
            ::core::stringify!($name $inner), "` does not; write `", ::core::stringify!($kind $operands),
            " -> result => match result { Ok(..) => .., Err(..) => .. }`"
        ))
    };

    (@arm $on:tt $mode:tt $done:tt $made:tt () $body:tt $($rest:tt)*) => {
        $crate::__select!(@arm $on $mode $done $made (_) $body $($rest)*)
    };
    (@arm $on:tt $mode:tt $done:tt (recv($source:expr)) $($rest:tt)*) => {
        $crate::__select!(@case $on $mode $done ($crate::select::recv(&$source)) $($rest)*)
    };
    (@arm $on:tt $mode:tt $done:tt (send($sink:expr, $value:expr)) $($rest:tt)*) => {
        $crate::__select!(@case $on $mode $done ($crate::select::send(&$sink, $value)) $($rest)*)
    };
    (@arm $on:tt $mode:tt $done:tt (send_from($sink:expr, $value:expr)) $($rest:tt)*) => {
        $crate::__select!(@case $on $mode $done ($crate::select::send_from(&$sink, &mut $value)) $($rest)*)
    };
    (@arm $on:tt $mode:tt $done:tt ($kind:ident $operands:tt) $pattern:tt $body:tt $($rest:tt)*) => {
        $crate::__select!(@arms $on $mode $done $kind $operands)
    };
    (@case $on:tt $mode:tt [$($done:tt)*] $made:tt $pattern:tt $body:tt $($rest:tt)*) => {
        $crate::__select!(@arms $on $mode [$($done)* (case $made $pattern $body)] $($rest)*)
    };

    (@before $ready:ident .poll()) => {};
    (@before $ready:ident $($wait:tt)*) => { $ready.before_wait(); };

    // A select that has only a `default` arm runs that arm.
    (@run $on:tt $mode:tt [] (.poll()) ($otherwise:expr)) => { $otherwise };
    (@run [on $platform:ty] $mode:tt [] ($($wait:tt)*) ($otherwise:expr)) => {{
        let _ = $crate::select::Select::<$platform>::new(&mut [])$($wait)*;
        $otherwise
    }};
    (@run [] $mode:tt [] $wait:tt $otherwise:tt) => {
        ::core::compile_error!(::core::concat!(
            "this `select!` has no channel whose type determines the platform: use the `select!` of the platform ",
            "(`native::select!`, `kernel::select!`), or write `on Platform;` before the arms"
        ))
    };
    // A select with a limit, which competes with the cases. `$wait` is `wait_timeout` or `wait_until`, and `End` has
    // a function of each name.
    (@run $on:tt () [$(($case:ident ($made:expr) $pattern:tt $body:tt))*] (.$wait:ident($limit:expr)) $otherwise:tt) => {{
        let result = match ($($made,)* $crate::select::End::$wait($limit),) {
            ($(mut $case,)* end,) => {
                let mut ready = $crate::select::Ready::new();
                $(ready.check(&$case);)*
                ready.check_end(&end);
                let chosen = ready.choose();
                match $crate::__select!(@try chosen [$($case)*] end) {
                    ::core::option::Option::Some(result) => result,
                    ::core::option::Option::None => {
                        $(let mut $case = $case;)*
                        let waited = $crate::select::Remaining::at(&mut [$($case.case()),*]).wait_unless(end);
                        let chosen = $crate::select::Chosen::number(waited);
                        $crate::__select!(@take chosen [$($case)*])
                    }
                }
            }
        };
        $crate::__select!(@dispatch result [$(($pattern $body))*] $otherwise)
    }};
    // The cases and their borrows end before the body of the chosen arm runs.
    (@run $on:tt () [$(($case:ident ($made:expr) $pattern:tt $body:tt))*] ($($wait:tt)*) $otherwise:tt) => {{
        // This is a `match` and not a `let`, so that temporaries of the operands (such as a timer made for this
        // select) live until the select is over.
        let result = match ($($made,)*) {
            ($(mut $case,)*) => {
                // Step 1 of the algorithm (see the module `select`) tries a case that seems to be ready. The list of
                // cases is made only if this step performs no case.
                let mut ready = $crate::select::Ready::new();
                $(ready.check(&$case);)*
                $crate::__select!(@before ready $($wait)*);
                let chosen = ready.choose();
                match $crate::__select!(@try chosen [$($case)*]) {
                    ::core::option::Option::Some(result) => result,
                    ::core::option::Option::None => {
                        // Moves the cases into new variables. The new variables must be in memory, because other Gs
                        // access them there. The old ones can be in registers, for a select that does not wait.
                        $(let mut $case = $case;)*
                        let waited = $crate::select::Remaining::at(&mut [$($case.case()),*])$($wait)*;
                        let chosen = $crate::select::Chosen::number(waited);
                        $crate::__select!(@take chosen [$($case)*])
                    }
                }
            }
        };
        $crate::__select!(@dispatch result [$(($pattern $body))*] $otherwise)
    }};
    (@run $on:tt ($($ordered:tt)+) [$(($case:ident ($made:expr) $pattern:tt $body:tt))*] ($($wait:tt)*) $otherwise:tt) => {{
        let result = match ($($made,)*) {
            ($(mut $case,)*) => {
                let chosen = $crate::select::Select::new(&mut [$($case.case()),*])$($ordered)+ $($wait)*;
                let chosen = $crate::select::Chosen::number(chosen);
                $crate::__select!(@take chosen [$($case)*])
            }
        };
        $crate::__select!(@dispatch result [$(($pattern $body))*] $otherwise)
    }};

    (@try $chosen:ident []) => { { let _ = $chosen; ::core::option::Option::None } };
    // The limit is over and is chosen.
    (@try $chosen:ident [] end) => { ($chosen == 0).then_some(()) };
    (@try $chosen:ident [$case:ident $($later:ident)*] $($end:ident)?) => {
        if $chosen == 0 {
            $crate::select::Arm::try_now(&mut $case).map($crate::select::OneOf::This)
        } else {
            let later = $chosen.wrapping_sub(1);
            $crate::__select!(@try later [$($later)*] $($end)?).map($crate::select::OneOf::Later)
        }
    };

    (@take $chosen:ident []) => { { let _ = $chosen; } };
    (@take $chosen:ident [$case:ident $($later:ident)*]) => {
        if $chosen == 0 {
            $($crate::select::Arm::discard($later);)*
            $crate::select::OneOf::This($crate::select::Arm::result($case))
        } else {
            $crate::select::Arm::discard($case);
            let later = $chosen.wrapping_sub(1);
            $crate::select::OneOf::Later($crate::__select!(@take later [$($later)*]))
        }
    };

    (@dispatch $result:ident [] ($otherwise:expr)) => {{ let () = $result; $otherwise }};
    (@dispatch $result:ident [(($pattern:pat) ($body:expr)) $($rest:tt)*] $otherwise:tt) => {
        match $result {
            $crate::select::OneOf::This(result) => {
                let $pattern = result;
                $body
            }
            $crate::select::OneOf::Later(later) => $crate::__select!(@dispatch later [$($rest)*] $otherwise),
        }
    };
}
