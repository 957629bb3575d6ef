//! Roughly how many partitions the last few thousand records went to.

/// The span of records in which the partitions in use are counted.
const SPAN: u64 = 4096;

#[derive(Default)]
pub(super) struct PartitionUsage {
    /// Records that looked up their topic so far.
    uses: u64,
    /// Partitions that the records of this span, and of the one before, can have gone to.
    in_span: usize,
    in_span_before: usize,
}

/// The records of one topic.
#[derive(Clone, Copy)]
pub(super) struct TopicUsage {
    /// The number of the last record that used it.
    pub(super) last_use: u64,
    /// How many records of the same span have used it.
    uses_in_span: usize,
}

impl PartitionUsage {
    /// Another record looks up its topic.
    pub(super) fn begin_record(&mut self) {
        self.uses += 1;
        if self.uses.is_multiple_of(SPAN) {
            self.in_span_before = std::mem::take(&mut self.in_span);
        }
    }

    pub(super) fn of_new_topic(&self) -> TopicUsage {
        TopicUsage { last_use: self.uses, uses_in_span: 0 }
    }

    /// The record is for this topic. If the topic has enough partitions, it may go to one that no
    /// other record of the span goes to.
    pub(super) fn note(&mut self, topic: &mut TopicUsage, partitions: Option<usize>) {
        if topic.last_use / SPAN != self.uses / SPAN {
            topic.uses_in_span = 0;
        }
        topic.last_use = self.uses;
        topic.uses_in_span += 1;
        let may_be_another = partitions.is_some_and(|count| topic.uses_in_span <= count);
        self.in_span += usize::from(may_be_another);
    }

    /// How many partitions the last records went to, at the most.
    pub(super) fn partitions(&self) -> usize {
        self.in_span.max(self.in_span_before)
    }
}
