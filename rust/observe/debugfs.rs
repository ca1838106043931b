// SPDX-License-Identifier: GPL-2.0

//! The files in `/sys/kernel/debug/rpcrdma`. `breaches` and `requester_breaches` show the module's
//! counters of protocol breaches: those of servers, and those of clients. `connections` shows the
//! connections of both roles. `peers` shows the module's memory of servers from earlier
//! connections, which any write clears.
//!
//! debugfs reads a file's operations again when the file is closed, possibly long after the file
//! was removed. The operations are part of the module, so a process with an open file must keep the
//! module loaded. Operations with an owner ensure that: debugfs takes a reference to the owner when
//! the file is opened, and releases it after it has read the operations for the last time. The
//! files of `kernel::debugfs` have no owner.
//!
//! C header: [`include/linux/debugfs.h`](srctree/include/linux/debugfs.h)

use core::marker::PhantomData;

use kernel::bindings;
use kernel::debugfs::Reader;
use kernel::error::from_err_ptr;
use kernel::ffi::{c_char, c_int, c_void};
use kernel::prelude::*;
use kernel::seq_file::SeqFile;
use kernel::sync::Arc;
use kernel::uaccess::{UserPtr, UserSlice};
use kernel::{fmt, seq_print};

use super::stats::{BREACHES, REQUESTER_BREACHES};
use crate::compat;

/// The module's debugfs directory. Dropping it removes the files, and waits for their readers.
///
/// Without `CONFIG_DEBUG_FS`, or if debugfs refuses to create a file, the file is missing, which is
/// not an error.
pub(crate) struct Debugfs<P, C> {
    // Dropped first, because the files show the other fields.
    _dir: Dir,
    _peers: Arc<P>,
    _connections: Arc<C>,
}

impl<P, C> Debugfs<P, C>
where
    P: fmt::Display + Reader + Send + Sync + 'static,
    C: fmt::Display + Send + Sync + 'static,
{
    /// Creates the directory and its files. Process context, may sleep.
    ///
    /// A module calls this as the last step of its initialisation: if a later step failed, the
    /// module would be freed although files may be open.
    pub(crate) fn new(peers: Arc<P>, connections: Arc<C>) -> Self {
        let dir = Dir::new(c"rpcrdma");
        // SAFETY: The counters are statics, and the fields below keep the tables until the
        // directory has been dropped.
        unsafe {
            dir.file(c"connections", 0o400, &*connections, &Operations::SHOW);
            dir.file(c"breaches", 0o400, &BREACHES, &Operations::SHOW);
            dir.file(
                c"requester_breaches",
                0o400,
                &REQUESTER_BREACHES,
                &Operations::SHOW,
            );
            dir.file(c"peers", 0o600, &*peers, &Operations::SHOW_AND_READ);
        }
        Self {
            _dir: dir,
            _peers: peers,
            _connections: connections,
        }
    }
}

/// A directory. Dropping it removes its files, and waits for tasks that are reading or writing one.
///
/// # Invariants
///
/// The pointer is null, or that of a directory of debugfs which only this value removes.
struct Dir(*mut bindings::dentry);

// SAFETY: Any task may add files and remove the directory.
unsafe impl Send for Dir {}
// SAFETY: debugfs locks the directory while a file is added.
unsafe impl Sync for Dir {}

impl Dir {
    /// Creates a directory in the root of debugfs. If debugfs refuses, no file is created either.
    /// May sleep.
    fn new(name: &CStr) -> Self {
        let none = core::ptr::null_mut();
        // SAFETY: The name ends in a NUL, and is copied. A null parent stands for the root.
        #[cfg(CONFIG_DEBUG_FS)]
        let made = unsafe { bindings::debugfs_create_dir(name.as_char_ptr(), none) };
        #[cfg(not(CONFIG_DEBUG_FS))]
        let (made, _) = (none, name);
        // INVARIANT: A pointer that is no error is that of a new directory.
        Self(from_err_ptr(made).unwrap_or(none))
    }

    /// Creates a file that shows `data`. May sleep.
    ///
    /// # Safety
    ///
    /// `data` is alive until `self` is dropped.
    unsafe fn file<T>(
        &self,
        name: &CStr,
        mode: bindings::umode_t,
        data: &T,
        operations: &'static Operations<T>,
    ) {
        if self.0.is_null() {
            // A null parent would stand for the root.
            return;
        }
        // SAFETY: The name ends in a NUL, and is copied. By the type invariant `self.0` is a
        // directory. The operations are for a `T`. No file is read or written after it was removed,
        // so the caller's promise covers each use of `data`.
        #[cfg(CONFIG_DEBUG_FS)]
        unsafe {
            bindings::debugfs_create_file_full(
                name.as_char_ptr(),
                mode,
                self.0,
                core::ptr::from_ref(data).cast_mut().cast(),
                core::ptr::null(),
                &operations.0,
            )
        };
        #[cfg(not(CONFIG_DEBUG_FS))]
        let _ = (name, mode, data, operations);
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the pointer is null, which is ignored, or that of a
        // directory that nothing else removes.
        #[cfg(CONFIG_DEBUG_FS)]
        unsafe {
            bindings::debugfs_remove(self.0)
        };
    }
}

/// The operations of a file whose private data is a `T`.
struct Operations<T>(bindings::file_operations, PhantomData<T>);

impl<T: fmt::Display> Operations<T> {
    /// Operations of a file that shows the `T`.
    const SHOW: Self = Self(
        bindings::file_operations {
            owner: compat::this_module(),
            open: Some(open::<T>),
            read: Some(bindings::seq_read),
            llseek: Some(bindings::seq_lseek),
            release: Some(bindings::single_release),
            ..pin_init::zeroed()
        },
        PhantomData,
    );
}

impl<T: fmt::Display + Reader> Operations<T> {
    /// Operations of a file that shows the `T`, and passes each write to the `T`.
    const SHOW_AND_READ: Self = Self(
        bindings::file_operations {
            write: Some(write::<T>),
            ..Self::SHOW.0
        },
        PhantomData,
    );
}

/// Opens a file.
///
/// # Safety
///
/// Called by debugfs for a file that [`Dir::file`] created with a `T`.
unsafe extern "C" fn open<T: fmt::Display>(
    inode: *mut bindings::inode,
    file: *mut bindings::file,
) -> c_int {
    // SAFETY: debugfs passes a valid inode, and a file that is being opened. `show` is called with
    // the private data, and only while the directory exists.
    unsafe { bindings::single_open(file, Some(show::<T>), (*inode).i_private) }
}

/// Writes the contents of a file.
///
/// # Safety
///
/// Called by `seq_read` for a file that [`open`] opened.
unsafe extern "C" fn show<T: fmt::Display>(seq: *mut bindings::seq_file, _: *mut c_void) -> c_int {
    // SAFETY: The file is being read, so its directory exists, and the data is alive.
    let (data, seq) = unsafe { (&*(*seq).private.cast::<T>(), SeqFile::from_raw(seq)) };
    seq_print!(seq, "{}", data);
    0
}

/// Passes a write to the data.
///
/// # Safety
///
/// Called by debugfs for a file that [`open`] opened.
unsafe extern "C" fn write<T: Reader>(
    file: *mut bindings::file,
    text: *const c_char,
    len: usize,
    _: *mut bindings::loff_t,
) -> isize {
    // SAFETY: `single_open` stored the `seq_file`, which has the inode's private data. The file
    // is being written, so its directory exists, and the data is alive.
    let data = unsafe {
        &*(*(*file).private_data.cast::<bindings::seq_file>())
            .private
            .cast::<T>()
    };
    let text = UserSlice::new(UserPtr::from_ptr(text.cast_mut().cast()), len);
    // CAST: A length fits, since the VFS permits none above `MAX_RW_COUNT`, and so does an errno.
    data.read_from_slice(&mut text.reader())
        .map_or_else(|error| error.to_errno() as isize, |()| len as isize)
}
