//! The program: see [`lookalike::cli`].

fn main() -> std::process::ExitCode {
    lookalike::cli::main()
}
