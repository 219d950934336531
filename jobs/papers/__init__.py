"""Tables and figures in the shape of the papers', with a report's metrics, and the printed numbers if asked for."""
