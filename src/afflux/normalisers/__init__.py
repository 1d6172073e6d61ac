"""What vendors say about their disks: how much of a disk a request takes.

A normaliser belongs to one model of a disk and is a table of coefficients or a WebAssembly module.
Here are their forms, the sandbox, signatures, the entries that announce them, and the registry,
which is the `Normalise` of the cycle. Not here: files, downloads, clocks. Contents, keys and seeds
come in as bytes.
"""
