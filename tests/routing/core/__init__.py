"""Tests of the decision: plain functions over plain values, without Django and without a database."""
