"""How a process runs and what it leaves behind: errors, files, seeds, text, the graph, recipes."""
