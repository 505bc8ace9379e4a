"""What a call walks through, one file a layer. A layer talks to one engine and to no other layer."""
