//! What stands between an operator and all else: open, shut for a while as where a process is frozen, or shut for
//! good as where one was killed. An operator that is killed goes on in this process, and nobody notices.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A gate; clones are the same one.
#[derive(Clone, Default)]
pub struct Gate(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    is_shut: bool,
    /// Whether connections through it end.
    breaks: bool,
    waiting: Vec<Waker>,
}

impl Gate {
    /// Lets nothing through from now on.
    pub fn shut(&self) {
        self.0.lock().unwrap().is_shut = true;
    }

    /// Ends all connections through it, and lets none through from now on.
    pub fn sever(&self) {
        self.change(|state| state.breaks = true);
    }

    /// Lets all through, also what waits.
    pub fn open(&self) {
        self.change(|state| (state.is_shut, state.breaks) = (false, false));
    }

    /// Waits until the gate is open.
    ///
    /// # Errors
    ///
    /// If connections through it end.
    pub async fn passes(&self) -> io::Result<()> {
        poll_fn(|context| self.poll(context)).await
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.0.lock().unwrap();
        change(&mut state);
        state.waiting.drain(..).for_each(Waker::wake);
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.lock().unwrap();
        if state.breaks {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        // Whoever goes on to wait for something else is told of a change here, too.
        state.waiting.retain(|it| !it.will_wake(context.waker()));
        state.waiting.push(context.waker().clone());
        match state.is_shut {
            true => Poll::Pending,
            false => Poll::Ready(Ok(())),
        }
    }
}

/// A connection through a gate.
pub struct Gated<T>(pub Gate, pub T);

impl<T: AsyncRead + Unpin> AsyncRead for Gated<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.0.poll(context))?;
        Pin::new(&mut self.1).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Gated<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.0.poll(context))?;
        Pin::new(&mut self.1).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.1).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.1).poll_shutdown(context)
    }
}
