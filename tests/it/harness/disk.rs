//! A small file system that tests can fill up and enlarge.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A small file system in memory. Dropping it unmounts it.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts `n_bytes` on a new folder. Returns `None` if the system refuses, as it does without root.
    pub fn mounted_on(folder: PathBuf, n_bytes: u64) -> Option<Self> {
        fs::create_dir_all(&folder).expect("a folder");
        mount(&folder, &format!("size={n_bytes}")).then_some(SmallDisk(folder))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Changes the size to `n_bytes`.
    pub fn resize(&self, n_bytes: u64) {
        assert!(mount(&self.0, &format!("remount,size={n_bytes}")), "mounted again");
    }

    /// Fills the disk with a file until only `n_bytes` are free, and returns that file.
    pub fn fill_but(&self, n_bytes: u64) -> PathBuf {
        let ballast = self.0.join("ballast");
        let mut file = fs::File::create(&ballast).expect("a file");
        while file.write_all(&[1; 4096]).is_ok() {}
        let full = file.metadata().expect("a length").len();
        file.set_len(full - n_bytes).expect("cut");
        ballast
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

fn mount(folder: &Path, options: &str) -> bool {
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(folder).stderr(Stdio::null());
    mount.status().is_ok_and(|status| status.success())
}
