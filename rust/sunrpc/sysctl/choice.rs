// SPDX-License-Identifier: GPL-2.0

//! Settings that are one word of a few.

use kernel::bindings as k;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};

use super::line::{self, File, Line};

/// One word of a list, with a name and a default.
pub(crate) struct Choice {
    /// The number of the word in `words`.
    chosen: Atomic<u32>,
    name: &'static CStr,
    words: &'static [&'static str],
}

impl Choice {
    /// Creates a setting called `name`. It is `words[default]` at first.
    pub(crate) const fn new(
        name: &'static CStr,
        words: &'static [&'static str],
        default: u32,
    ) -> Self {
        // CAST: `usize` has at least 32 bits.
        assert!((default as usize) < words.len());
        Self {
            chosen: Atomic::new(default),
            name,
            words,
        }
    }

    /// Returns the number of the word that is set. It may change at any time: code that needs the
    /// same value twice must read it once.
    pub(crate) fn get(&self) -> u32 {
        self.chosen.load(Relaxed)
    }

    /// Returns the C description.
    pub(super) fn table(&'static self) -> k::ctl_table {
        line::table(self)
    }
}

impl File for Choice {
    fn name(&self) -> &'static CStr {
        self.name
    }

    /// Returns the word and a newline.
    fn line(&self) -> Line {
        // CAST: `usize` has at least 32 bits.
        let word = self.words.get(self.get() as usize).unwrap_or(&"");
        Line::new(&fmt!("{word}\n"))
    }

    /// Chooses the word that is in `text`, apart from white space around it.
    ///
    /// # Errors
    ///
    /// `EINVAL` for any other text.
    fn write(&self, text: &[u8]) -> Result {
        let word = text.trim_ascii();
        let found = self.words.iter().position(|known| known.as_bytes() == word);
        let number = u32::try_from(found.ok_or(EINVAL)?)?;
        self.chosen.store(number, Relaxed);
        Ok(())
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_choice)]
mod tests {
    use super::*;

    #[test]
    fn only_the_words_of_the_list_are_taken() {
        let choice = Choice::new(c"test", &["1", "2", "auto"], 2);
        assert_eq!(choice.line().as_bytes(), b"auto\n");
        for (text, number) in [("1\n", 0), ("2", 1), (" auto \n", 2)] {
            assert!(choice.write(text.as_bytes()).is_ok());
            assert_eq!(choice.get(), number);
        }
        for text in ["", "\n", "3", "aut", "auto auto", "12"] {
            assert!(choice.write(text.as_bytes()).is_err());
            assert_eq!(choice.get(), 2);
        }
    }
}
