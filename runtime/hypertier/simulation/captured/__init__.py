"""Traffic that was captured, as a trace of Mooncake's form: lengths, times and which beginnings are alike."""
