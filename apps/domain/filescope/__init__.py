"""What may be read of the files of an artifact, under logical names, within bounds?

Nothing here opens anything by itself: where the bytes come from is handed in. All tools read; none
changes, starts or remembers anything.
"""
