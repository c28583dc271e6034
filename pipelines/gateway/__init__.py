"""What a DICOM gateway keeps: objects on disk, what is known of them, jobs and what is to be sent. No network here.

Objects and results are files, written whole or not at all, and are the truth; an SQLite index beside them is rebuilt
from them where the two differ after a crash.
"""
