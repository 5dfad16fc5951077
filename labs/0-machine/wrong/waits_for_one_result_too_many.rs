//! Main receives once more than the Gs send: a deadlock.
//! fails: sum, machine

// ANCHOR: program
fn main(arguments: &[&str]) -> i32 {
    let (sender, receiver) = channel(0);
    let keeper = sender.clone();
    for argument in arguments {
        let Ok(number) = argument.parse::<u64>() else {
            eprintln!("first: `{argument}` is no number");
            return 1;
        };
        let sender = sender.clone();
        go(move || sender.send(number * number).expect("main receives")).detach();
    }
    let sum: u64 = (0..=arguments.len()).map(|_| receiver.recv().expect("it is open")).sum();
    drop(keeper);
    println!("{sum}");
    0
}
// ANCHOR_END: program
