"""Tables and figures in the shape of the papers', with a report's metrics next to the printed numbers."""
