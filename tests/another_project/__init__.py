"""A Django project of somebody else, which uses Signalbox by the names of its tasks and knows nothing of its code."""
