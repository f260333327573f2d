//! Draws that are random and still fair.

use fastrand::Rng;

/// Cards that are dealt to the last before they are shuffled again.
pub(crate) struct Deck<T> {
    all: Vec<T>,
    left: Vec<T>,
}

impl<T: Clone> Deck<T> {
    pub(crate) fn new(all: Vec<T>) -> Self {
        let left = Vec::new();
        Self { all, left }
    }

    /// The next that fits; one that does not keeps its place, and keeps none that does from coming.
    pub(crate) fn draw(&mut self, random: &mut Rng, fits: impl Fn(&T) -> bool) -> Option<T> {
        if !self.left.iter().any(&fits) {
            let mut more = self.all.clone();
            random.shuffle(&mut more);
            self.left.extend(more);
        }
        let place = self.left.iter().position(fits)?;
        Some(self.left.remove(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_card_comes_once_before_any_comes_again() {
        let (mut random, mut deck) = (Rng::with_seed(1), Deck::new(vec![1, 2, 3]));
        for _ in 0..5 {
            let mut dealt: Vec<_> = (0..3)
                .filter_map(|_| deck.draw(&mut random, |_| true))
                .collect();
            dealt.sort_unstable();
            assert_eq!(dealt, [1, 2, 3]);
        }
    }

    #[test]
    fn what_does_not_fit_comes_later_and_is_in_nobodys_way() {
        let (mut random, mut deck) = (Rng::with_seed(1), Deck::new(vec![1, 2]));
        for _ in 0..3 {
            assert_eq!(deck.draw(&mut random, |it| *it == 2), Some(2));
        }
        for expected in [1, 1, 1] {
            assert_eq!(deck.draw(&mut random, |_| true), Some(expected));
        }
        assert_eq!(deck.draw(&mut random, |it| *it == 3), None);
    }
}
