//! The numbers are added, not their squares.
//! fails: sum, machine

// ANCHOR: program
fn main(arguments: &[&str]) -> i32 {
    let mut numbers = Vec::new();
    for argument in arguments {
        let Ok(number) = argument.parse::<u64>() else {
            eprintln!("first: `{argument}` is no number");
            return 1;
        };
        numbers.push(go(move || number));
    }
    let sum: u64 = numbers.into_iter().map(|number| number.join().expect("no panic")).sum();
    println!("{sum}");
    0
}
// ANCHOR_END: program
