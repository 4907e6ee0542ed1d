"""What a checkpoint of a graph holds: namespaces, values, and the form that pages show."""
