//! The `lookalike` program: [`lookalike::cli`] under a faster allocator.

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    lookalike::cli::main()
}
