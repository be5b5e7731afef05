// Package imagecost reads the headers of image files, and computes how many bytes codex needs to decode the images.
//
// Codex 0.169 needs memory and time to decode images, and a file of 30 bytes can hold an image of 8000 × 8000 pixels: a
// worker that decodes answers other requests late, and beyond its memory limit it dies. So before codex gets images,
// they count with the bytes that it needs to decode them, which follow from their headers.
//
// Codex decodes the images of one request one after the other, and images of different requests at the same time. It
// decodes the first frame of an image that has several. It scales down an image that is larger than the model accepts,
// by way of one row of four floats a pixel for each row of the result, and encodes it again.
//
// Measured at thread/inject_items with codex 0.169 on two processors, an image a
// request, beyond the memory of an idle codex (135 MiB):
//
//	image                                peak MiB  counted MiB  CPU s
//	PNG 1920 × 1080, RGB                       13            8    0.02
//	PNG 3840 × 2160, RGB                       31          110    0.1
//	JPEG 4000 × 3000, a photo of 2 MB         245          241    0.8
//	  the same, progressive                   256          240    0.9
//	WebP 4000 × 3000, the same                249          259    1.0
//	JPEG 8160 × 6120, a photo of 9 MB         555          553    1.5
//	PNG 8000 × 8000: grey                     468          532    1.3
//	  RGB, 1 bit, palette: RGB                608          674    1.3 to 1.6
//	  RGBA                                    680          674    1.3
//	  grey of 16 bits                         538          674    1.2
//	  RGB of 16 bits                          821          958    1.4
//	  RGBA of 16 bits                         964          959    1.6
//	JPEG 8000 × 8000: grey                    471          464    1.3
//	  colour                                  614          608    1.7
//	  progressive                             611          605    2.1
//	  progressive, CMYK                       683          677    2.7
//	WebP 8000 × 8000: lossless, 30 bytes      607          673    1.5
//	  lossy, with alpha                       686          674    2.1
//	GIF 8000 × 8000                           679          674    1.5
//	PNG 64 000 000 × 1, grey                 1051         1098    1.4
//	PNG 1 × 64 000 000, grey                   65         7813    2.6
//
// For a model that accepts only smaller images, such as any that codex does not know, the large ones need half or less.
// So codex needs 2 to 5 ms of CPU time for a MiB, and up to 10 if an image is hard to decode and is not scaled down.
package imagecost
