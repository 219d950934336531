"""Tables and figures in the shape of the papers', of a report's own metrics with the printed numbers next to them."""
