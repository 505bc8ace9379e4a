"""What pages show of calls, a module a subject: values in, values out, at a number of queries that does not grow.

Here are figures, each with its population. Words, tables and charts are made where the pages are.
"""
