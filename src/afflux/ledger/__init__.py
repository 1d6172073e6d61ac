"""The ledger: groups, reservations and history in PostgreSQL, which outlive a process.

`sql/migrations` is the schema as dated migrations, `sql/queries.sql` has every statement by name;
`statements` reads both, `migrations` brings a database up to date. `postgres` is the ledger of the
cycle, over the one `connection`, with entries as rows by `encoding`, and members in chunks by
`stored_members`; `retention` deletes old history; `queries` answers people, with rows as values by
`query_rows`. `embedded_postgres` runs a server of its own where no database is configured, in one
of the `directories`, guarded by `directory_lock`.

Not here: when entries are written, and what they mean.
"""
