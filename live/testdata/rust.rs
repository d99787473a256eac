// Runs a little, says so, and waits; at the first line of standard input it runs
// more, at the second it has its counters written. What waits is compiled with
// counters too: there is no loop around it, so that they stay as they were read.
use std::io::BufRead;

extern "C" {
    fn __llvm_profile_write_file() -> i32;
}

fn work(n: i64) -> i64 {
    if n % 3 == 0 && n > 100 {
        n * 2
    } else {
        (0..n % 7).filter(|x| x % 2 == 0).sum()
    }
}

#[allow(dead_code)]
fn never(n: i64) -> i64 {
    n + 1
}

fn main() {
    let sum: i64 = (0..1000).map(work).sum();
    println!("ready {}", sum);
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).unwrap();
    let more: i64 = (0..500).map(work).sum();
    println!("done {}", more);
    line.clear();
    std::io::stdin().lock().read_line(&mut line).unwrap();
    unsafe { __llvm_profile_write_file() };
    println!("done");
    line.clear();
    std::io::stdin().lock().read_line(&mut line).unwrap();
}
