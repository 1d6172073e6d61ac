"""The ledger: what outlives a process, in PostgreSQL.

`sql/migrations` is the schema, one dated step after the other, `sql/queries.sql` every statement
by name; `statements` reads them, `migrating` brings a database up to date, `embedded` runs a
PostgreSQL of our own where no other is given, `places` says where, `postgres` is the ledger that
the cycle knows. Not here: when something is written, and what it means; that is the doors'
business.
"""
