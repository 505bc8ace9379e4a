"""One door for every change of a record: validate, save, keep a revision, audit, in one transaction.

The admin, commands, the demo and later the API call the modules in here, one for each kind of record, and write in no
other way; a test enumerates who saves what. The records raise their version themselves.
"""
