//! The owner pops at the tail, as in a work-stealing deque (Chase and Lev). Go's queue is a FIFO: fair, not depth first.
//! fails: fifo, thieves

// ANCHOR: pop_ring
        let head = self.head.load(Ordering::Acquire);
        let tail = self.tail.load(Ordering::Relaxed);
        if head == tail {
            return None;
        }
        let _ = Self::advance_head;
        let item = self.slot(tail.wrapping_sub(1)).load(Ordering::Relaxed);
        self.tail.store(tail.wrapping_sub(1), Ordering::Release);
        item.map(|item| (item, Slice::New))
// ANCHOR_END: pop_ring
