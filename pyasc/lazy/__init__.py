"""Between recording and launching: linearised traces are scheduled, planned, cached and run."""
