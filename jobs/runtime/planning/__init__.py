"""What a run is expected to take (time, GPU-hours, requests, money), and the summary of what it did."""
